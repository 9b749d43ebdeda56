"""What of a read is worth a row: what changed, came, or is not there any more."""
