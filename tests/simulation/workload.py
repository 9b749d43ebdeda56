"""What applications write at the source during a simulation, and what a reader is owed for it."""

import random
from dataclasses import dataclass, field
from enum import StrEnum

from ledger.adapters.memory.kafka import MemoryCluster
from ledger.adapters.memory.partition_log import PartitionLog
from ledger.adapters.memory.schedule import Schedule
from ledger.adapters.memory.stored_batches import Producer, application_batch, content
from ledger.wire.record_batch import TRANSACTIONAL, next_sequence

MIRROR_PRODUCER_ID = 9_000
_APPLICATION_PRODUCER_IDS = (5_000, 5_001, 5_002)
_DAY_MS = 86_400_000
Truth = dict[int, tuple[int, bytes]]


class TopicKind(StrEnum):
    """How a topic is written; what happens to its log follows from it."""

    PLAIN = "plain"
    TRANSACTIONAL = "transactional"
    COMPACTED = "compacted"
    LOG_APPEND_TIME = "log-append-time"


@dataclass(slots=True)
class _Transaction:
    producer_id: int
    records: Truth = field(default_factory=dict)


@dataclass(slots=True)
class SourcePartition:
    """One partition that applications write to; `owed` is every record that a reader was to see, by offset."""

    topic: str
    number: int
    kind: TopicKind
    owed: Truth = field(default_factory=dict)
    mirror_written: set[int] = field(default_factory=set)
    transactions: dict[int, _Transaction] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)


class Workload:
    """Writes at random until told to stop; then ends what is open."""

    def __init__(
        self, rng: random.Random, schedule: Schedule, source: MemoryCluster, *, old_timestamps: bool
    ) -> None:
        self._rng = rng
        self._schedule = schedule
        self._source = source
        self._age_ms = 3 * _DAY_MS if old_timestamps else 0
        self._written = 0
        self._is_on = True
        self.partitions: list[SourcePartition] = []

    def add_topic(self, topic: str, kind: TopicKind, partitions: int) -> None:
        configuration = (
            {"message.timestamp.type": "LogAppendTime"} if kind is TopicKind.LOG_APPEND_TIME else {}
        )
        self._source.create_topic(
            topic, partitions=partitions, replication_factor=1, configuration=configuration
        )
        self.partitions += [SourcePartition(topic, number, kind) for number in range(partitions)]

    def start(self) -> None:
        for _ in range(self._rng.randint(0, 12)):
            self._write_once()
        self._schedule.after(self._rng.uniform(0.01, 0.2), self._tick)

    def stop(self) -> None:
        self._is_on = False
        for partition in self.partitions:
            for producer_id in list(partition.transactions):
                self._end_transaction(partition, producer_id)

    def log(self, partition: SourcePartition) -> PartitionLog:
        return self._source.log(partition.topic, partition.number)

    def compact(self) -> None:
        """Clean a random beginning of every compacted log."""
        for partition in self.partitions:
            if partition.kind is TopicKind.COMPACTED:
                self.log(partition).compact(self._rng.randint(0, self.log(partition).end))

    def _tick(self) -> None:
        if self._is_on:
            self._write_once()
            self._schedule.after(self._rng.uniform(0.005, 0.12), self._tick)

    def _write_once(self) -> None:
        partition = self._rng.choice(self.partitions)
        if partition.kind is TopicKind.TRANSACTIONAL and self._rng.random() < 0.8:
            self._write_transactionally(partition)
        elif self._rng.random() < 0.1:
            offset, records = self._append(
                partition, Producer(MIRROR_PRODUCER_ID, 0, self._sequence(partition))
            )
            partition.mirror_written.update(range(offset, offset + len(records)))
        else:
            partition.owed.update(self._append(partition, Producer())[1])

    def _sequence(self, partition: SourcePartition) -> int:
        return partition.sequences.get(MIRROR_PRODUCER_ID, 0)

    def _write_transactionally(self, partition: SourcePartition) -> None:
        producer_id = self._rng.choice(_APPLICATION_PRODUCER_IDS)
        transaction = partition.transactions.get(producer_id)
        if transaction is not None and self._rng.random() < 0.5:
            self._end_transaction(partition, producer_id)
            return
        if transaction is None:
            transaction = partition.transactions[producer_id] = _Transaction(producer_id)
        sequence = partition.sequences.get(producer_id, 0)
        _, records = self._append(partition, Producer(producer_id, 0, sequence), attributes=TRANSACTIONAL)
        transaction.records.update(records)

    def _end_transaction(self, partition: SourcePartition, producer_id: int) -> None:
        transaction = partition.transactions.pop(producer_id)
        commit = self._rng.random() < 0.6
        now_ms = self._schedule.now_ms()
        self.log(partition).end_transaction(producer_id, 0, commit=commit, now_ms=now_ms)
        if commit:
            partition.owed.update(transaction.records)

    def _append(
        self, partition: SourcePartition, producer: Producer, *, attributes: int = 0
    ) -> tuple[int, Truth]:
        contents = [self._content() for _ in range(self._rng.randint(1, 12))]
        now_ms = self._schedule.now_ms()
        timestamps = [now_ms - self._age_ms + self._rng.randint(-500, 500) for _ in contents]
        codec = self._rng.choice((0, 0, 1, 2, 3, 4))
        batch = application_batch(contents, timestamps, attributes=attributes | codec, producer=producer)
        offset = self.log(partition).append(batch, now_ms=now_ms)
        if producer.producer_id >= 0:
            sequence = partition.sequences.get(producer.producer_id, 0)
            partition.sequences[producer.producer_id] = next_sequence(sequence, len(contents))
        if partition.kind is TopicKind.LOG_APPEND_TIME:
            timestamps = [now_ms] * len(contents)
        return offset, dict(enumerate(zip(timestamps, contents, strict=True), offset))

    def _content(self) -> bytes:
        self._written += 1
        value = None if self._rng.random() < 0.05 else self._rng.randbytes(self._rng.choice((1, 20, 300)))
        headers = [("n", str(self._written).encode()), ("n", None)][: self._rng.randint(1, 2)]
        return content(b"key-%d" % self._rng.randint(0, 30), value, headers)
