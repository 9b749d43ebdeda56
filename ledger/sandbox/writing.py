"""Traffic at a steady rate into the topics of a workload, for as long as somebody wants it."""

import time

from ledger.clock import SystemClock
from ledger.sandbox.workload import PARTITIONS, Delivery, RecordSource, Workload, create_topics

_PAUSE_S = 0.05
_GIVE_UP_MS = 10_000


class Traffic:
    """`sent` records so far, of which the cluster has acknowledged `acknowledged`."""

    def __init__(self, servers: str) -> None:
        workload = Workload(records_per_topic=0, started_ms=0)
        self._topics = list(workload.event_topics)
        create_topics(servers, self._topics, partitions=PARTITIONS)
        self._source = RecordSource(workload)
        self._deliveries = {
            topic: Delivery(servers, {"compression.type": codec, "delivery.timeout.ms": str(_GIVE_UP_MS)})
            for topic, codec in workload.event_topics.items()
        }

    @property
    def sent(self) -> int:
        return self._source.taken

    @property
    def acknowledged(self) -> int:
        return sum(one.acknowledged for one in self._deliveries.values())

    def write(self, rate: int, seconds: float) -> None:
        """Write so many records a second, by turns to each topic, until the time is over."""
        clock, began_s = SystemClock(), time.monotonic()
        while (passed_s := time.monotonic() - began_s) < seconds:
            while self.sent < rate * passed_s:
                topic = self._topics[self.sent % len(self._topics)]
                [record] = self._source.take(topic, 1)
                self._deliveries[topic].send(
                    topic, self._source.partition(), record._replace(timestamp_ms=clock.now_ms())
                )
            for delivery in self._deliveries.values():
                delivery.producer.poll(0)
            time.sleep(_PAUSE_S)

    def finish(self) -> None:
        """Wait until each record is acknowledged, or given up after ten seconds."""
        for delivery in self._deliveries.values():
            delivery.producer.flush(_GIVE_UP_MS / 1000)
