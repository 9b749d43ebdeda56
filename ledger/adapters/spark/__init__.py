"""Spark: sessions, rounds and appends."""
