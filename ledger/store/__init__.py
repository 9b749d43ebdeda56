"""The ledger's tables on Delta Lake, and DuckDB, which answers from them: appends, claims, snapshots, merging."""
