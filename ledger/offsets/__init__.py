"""Where groups continue at another cluster: what is asked of the ledger, how answers are judged and set there."""
