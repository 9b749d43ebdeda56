"""Applications that write to an in-memory cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ledger.kafka.batches import TRANSACTIONAL
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.stored_batches import Producer, application_batch, content

_TRANSACTIONAL = Producer(77, 0, 0)


@dataclass(frozen=True, slots=True)
class MemoryApplications:
    """Implements `contracts.cluster_admin.Applications`."""

    cluster: MemoryCluster

    def write(self, topic: str, partition: int, timestamps: Sequence[int]) -> None:
        batch = application_batch([content(None, b"value")] * len(timestamps), timestamps)
        self.cluster.log(topic, partition).append(batch, now_ms=self.cluster.clock.now_ms())

    def begin_transaction(self, topic: str, partition: int, records: int) -> Callable[[], None]:
        log = self.cluster.log(topic, partition)
        contents = [content(None, b"value")] * records
        batch = application_batch(
            contents,
            [self.cluster.clock.now_ms()] * records,
            attributes=TRANSACTIONAL,
            producer=_TRANSACTIONAL,
        )
        log.append(batch, now_ms=self.cluster.clock.now_ms())
        return partial(
            log.end_transaction,
            _TRANSACTIONAL.producer_id,
            0,
            commit=True,
            now_ms=self.cluster.clock.now_ms(),
        )
