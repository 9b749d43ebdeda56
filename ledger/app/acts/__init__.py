"""What operators do to flows and clusters, and what of it is recorded."""
