"""What needs attention while a flow goes on: watched, raised once and cleared once."""
