"""Numbers, instants and partitions as people read them."""
