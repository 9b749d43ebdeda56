"""Where offsets of one cluster lie at another: maps, the algebra over a pair of clusters, groups that are moved."""
