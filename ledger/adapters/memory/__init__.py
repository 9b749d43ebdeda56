"""The ledger in memory."""
