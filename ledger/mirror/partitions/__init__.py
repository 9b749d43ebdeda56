"""Where a flow stands on its partitions: where they begin, why they stop, what its policies do then."""
