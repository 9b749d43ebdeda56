"""Requests that kafka-python does not know, as it reads those that it does: Kafka's own descriptions of messages."""
