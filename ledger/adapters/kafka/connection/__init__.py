"""One socket to one broker: addresses, TLS, SASL, what keeps it from being used, and whether anybody answers."""
