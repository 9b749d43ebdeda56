"""Fences of topics: stopping applications from writing at a cluster, proving it, lifting it."""
