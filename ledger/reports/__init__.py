"""Reports for people who were not there: what a ledger says of a period, a failover, drills, capacity."""
