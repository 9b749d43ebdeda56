"""What is said of what was measured: one module a subject, pure functions."""
