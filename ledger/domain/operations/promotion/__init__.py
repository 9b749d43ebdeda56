"""What a promotion does beside its row: each of it as it is recorded."""
