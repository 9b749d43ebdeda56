"""What the ledger answers: the state of flows, lag, directions, requests, and the ledger from Python."""
