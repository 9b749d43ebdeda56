"""Deleting keys that a compacted target kept although the source deleted them: compare, write tombstones, record."""
