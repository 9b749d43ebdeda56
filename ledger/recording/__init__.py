"""Recorders: what groups had committed, where partitions ended, how topics looked; written when changed."""
