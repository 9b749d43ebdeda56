"""The ledger in memory: what is appended, read back and looked up, held to the contracts of the real one."""
