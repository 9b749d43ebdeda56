"""Where offsets lie at another cluster, one at a time by plain rules: the oracle of the queries that answer it."""
