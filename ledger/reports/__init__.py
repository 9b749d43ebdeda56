"""Renderers of query results."""
