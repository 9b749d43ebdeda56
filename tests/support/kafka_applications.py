"""Applications that write to a real cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Producer


@dataclass(frozen=True, slots=True)
class KafkaApplications:
    """Implements `contracts.cluster_admin.Applications`."""

    bootstrap_servers: str

    def write(self, topic: str, partition: int, timestamps: Sequence[int]) -> None:
        producer = self._producer()
        for timestamp in timestamps:
            producer.produce(topic, b"value", partition=partition, timestamp=timestamp)
        assert producer.flush(10) == 0

    def begin_transaction(self, topic: str, partition: int, records: int) -> Callable[[], None]:
        producer = self._producer(**{"transactional.id": topic})
        producer.init_transactions(10)
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, b"value", partition=partition)
        assert producer.flush(10) == 0
        return lambda: producer.commit_transaction(10)

    def _producer(self, **settings: str) -> Producer:
        """One that sends what is produced before `flush` as one batch, however slowly it was produced."""
        return Producer(
            {"bootstrap.servers": self.bootstrap_servers, "acks": "all", "linger.ms": 5_000, **settings}
        )
