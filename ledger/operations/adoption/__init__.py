"""Taking over a target that something else has filled: pair its records with the source's, record the map."""
