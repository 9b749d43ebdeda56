"""Where offsets of a source partition lie on the target: what a row says, the map of all rows, what holds of them."""
