"""Groups that move to another cluster: where each is to continue, what is set there, and what is recorded of it."""
