"""Fences at a real cluster: what each leader has of rules and settings, open transactions, their end."""
