"""Administration of a cluster, behind `ports.ClusterAdmin`: one connection with deadlines, and requests by subject."""
