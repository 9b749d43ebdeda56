"""Changes of direction: planned from the ledger, carried out step by step, verified and undone."""
