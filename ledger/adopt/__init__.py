"""Taking over a target that something else has filled: its records are paired, the map is recorded."""
