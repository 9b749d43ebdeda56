"""Transactions of applications."""

from confluent_kafka import Producer


def transaction(servers: str, topic: str, transactional_id: str, *values: bytes) -> Producer:
    """Open, with all of its records appended; the broker ends it not before busy machines have made a plan."""
    properties = {"transactional.id": transactional_id, "transaction.timeout.ms": "600000"}
    producer = Producer({"bootstrap.servers": servers, **properties})
    producer.init_transactions(10)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(10) == 0
    return producer
