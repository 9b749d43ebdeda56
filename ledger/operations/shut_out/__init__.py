"""Shutting the mirror itself out of a promoted cluster: it has stopped, and cannot begin again unasked."""
