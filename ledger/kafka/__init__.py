"""Kafka clusters: bytes, connections, administration, leaders. The only place that imports Kafka clients."""
