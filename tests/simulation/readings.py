"""What lies in simulated logs as readers meet it: records by what they are, wherever they lie."""

from collections.abc import Iterator

from ledger.kafka.batches import BatchHeader, Record, decode
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.workload import TopicKind

Identity = tuple[int | None, bytes]
"""Timestamp and content of a record, alike for all of its copies; no timestamp where brokers stamp their own."""

Found = tuple[int, Identity, int]
"""Where a record lies, what it is, and the producer id of its batch."""


class Readings:
    """Decodes every batch once, however often it is looked at."""

    def __init__(self) -> None:
        self._decoded: dict[int, tuple[bytes, list[Record]]] = {}
        """By the address of the batch, which is kept so that no other gets it."""

    def written(self, topic: str, log: PartitionLog, start: int, end: int) -> Iterator[tuple[int, Identity]]:
        """What was ever appended at offsets `[start, end)` and not truncated since, aborted records included."""
        for header, batch in log.written():
            if header.end_offset > start and header.base_offset < end:
                yield from self._between(topic, header, batch, start, end)

    def committed(self, topic: str, log: PartitionLog) -> Iterator[Found]:
        """What committed readers are, or were, shown: what was deleted or cleaned since among it."""
        for header, batch in log.written():
            if log.committed(header):
                for offset, identity in self._between(topic, header, batch, 0, log.end):
                    yield offset, identity, header.producer_id

    def readable(self, topic: str, log: PartitionLog) -> Iterator[Found]:
        """What a committed reader from the log start sees now."""
        for header, batch in log.batches():
            if log.committed(header):
                for offset, identity in self._between(topic, header, batch, log.log_start, log.end):
                    yield offset, identity, header.producer_id

    def _between(
        self, topic: str, header: BatchHeader, batch: bytes, start: int, end: int
    ) -> Iterator[tuple[int, Identity]]:
        if not header.count or header.is_control:
            return
        has_own_time = TopicKind.LOG_APPEND_TIME in topic
        for record in self._records(header, batch):
            if start <= record.offset < end:
                yield record.offset, (None if has_own_time else record.timestamp, record.content)

    def _records(self, header: BatchHeader, batch: bytes) -> list[Record]:
        known = self._decoded.get(id(batch))
        if known is None:
            known = self._decoded[id(batch)] = batch, list(decode(header, memoryview(batch)))
        return known[1]
