"""A class for each kind of request: what it would do, by what the ledger knows, and how a driver grants it."""
