"""Fences: what stops applications from writing at a cluster, what proves it, and what is recorded of it."""
