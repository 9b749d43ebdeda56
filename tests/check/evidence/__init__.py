"""Bundles of evidence."""
