"""What needs attention while a flow runs: watched, raised once and cleared once."""
