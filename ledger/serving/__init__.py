"""What others see of a mirror: the ledger as metrics and as pages, and what a driver is doing as metrics."""
