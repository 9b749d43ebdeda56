"""What operators do with a ledger: adopt, resync, set offsets, accept clusters, ask and read the status."""
