"""Kafka in memory: brokers, their logs, and the lines to them, as the simulation and contracts have them."""
