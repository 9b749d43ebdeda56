"""The ledger's tables on Delta Lake."""
