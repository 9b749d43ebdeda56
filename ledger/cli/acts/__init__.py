"""Commands that ask for a change, or make one, and end."""
