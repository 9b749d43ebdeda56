"""A change of direction: what is to be done, in which order, why not to, and how far it has come."""
