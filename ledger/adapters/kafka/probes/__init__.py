"""What `doctor` measures at a cluster, behind the ports of `ledger/doctor`."""
