"""What the ledger says, as values: tables, rows and operations, and what they add up to. No IO, no clock."""
