"""What both sides of a flow hold, read and compared: record for record, or by the last record of each key."""
