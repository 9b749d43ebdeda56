"""Kafka clusters: administration, sockets, client properties. The only place that imports Kafka clients."""
