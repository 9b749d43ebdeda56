"""Records for topics that a test fills by hand."""

import time

from ledger.sandbox.workload import Delivery, RecordSource, Workload


def send(servers: str, topic: str, partition: int, source: RecordSource, records: int) -> None:
    delivery = Delivery(servers, {})
    for record in source.take(topic, records):
        delivery.send(topic, partition, record)
    delivery.finish()


def small_source(prefix: str) -> RecordSource:
    return RecordSource(Workload(records_per_topic=0, started_ms=time.time_ns() // 1_000_000, prefix=prefix))
