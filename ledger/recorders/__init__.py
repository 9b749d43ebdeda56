"""Recorders: what groups had committed, where partitions ended, which settings topics had; written when changed."""
