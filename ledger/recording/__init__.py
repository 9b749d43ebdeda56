"""Recorders: what groups committed and where partitions ended, when it changed."""
