"""Requests and receipts that operators leave in the ledger."""
