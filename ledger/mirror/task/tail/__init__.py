"""What lies at the end of a target log already, and whose it is."""
