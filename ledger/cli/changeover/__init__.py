"""Commands that plan and carry out a change of direction."""
