"""The ledger from Python."""
