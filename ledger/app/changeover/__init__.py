"""Wiring of changes of direction: planned, carried out, verified and undone."""
