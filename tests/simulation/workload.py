"""What applications write at one cluster during a simulation, and what happens to their topics there."""

import random
from collections.abc import Iterator
from enum import StrEnum

from ledger.kafka.batches import TRANSACTIONAL, next_sequence
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import Producer, application_batch, content

OTHER_MIRROR_PRODUCER_ID = 999_999  # clusters give ids from 0 on
_APPLICATION_PRODUCER_IDS = (1_000_000, 1_000_001, 1_000_002)
_DAY_MS = 86_400_000


class TopicKind(StrEnum):
    """How a topic is written; what happens to its log follows from it."""

    PLAIN = "plain"
    TRANSACTIONAL = "transactional"
    COMPACTED = "compacted"
    LOG_APPEND_TIME = "log-append-time"


class Workload:
    """Writes at random until told to stop; then ends what is open. Topics may go away and come back meanwhile.

    `cleanup`: what to draw from whether a compacted topic's records expire, too.
    `repeats`: what to draw from for contents that are written again and again, a record or two at a time, as
    heartbeats are; None when every record is of its own.
    `sends_alone`: producers put each record into a batch of its own, without a codec.
    """

    def __init__(
        self,
        rng: random.Random,
        schedule: Schedule,
        cluster: MemoryCluster,
        *,
        old_timestamps: bool,
        repeats: random.Random | None = None,
        cleanup: random.Random | None = None,
        sends_alone: bool = False,
    ) -> None:
        self._rng = rng
        self._sends_alone = sends_alone
        self._cleanup = cleanup or random.Random(0)
        self._repeats = repeats
        self._schedule = schedule
        self._cluster = cluster
        self._age_ms = 3 * _DAY_MS if old_timestamps else 0
        self._written = 0
        self._is_on = True
        self._leaves_transactions_open = False
        self._sequences: dict[tuple[int, int], int] = {}
        self.kinds: dict[str, TopicKind] = {}

    def add_topic(self, topic: str, kind: TopicKind, partitions: int) -> None:
        configuration = (
            {"message.timestamp.type": "LogAppendTime"} if kind is TopicKind.LOG_APPEND_TIME else {}
        )
        if kind is TopicKind.COMPACTED:
            configuration = {"cleanup.policy": self._cleanup.choice(("compact", "compact", "compact,delete"))}
        self._cluster.create_topic(
            topic, partitions=partitions, replication_factor=1, configuration=configuration
        )
        self.kinds[topic] = kind

    def start(self) -> None:
        for _ in range(self._rng.randint(0, 12)):
            self._write_once()
        self._schedule.after(self._rng.uniform(0.01, 0.2), self._tick)

    def leave_transactions_open(self) -> None:
        """A producer hangs: what it has open stays so until the calm."""
        self._leaves_transactions_open = True

    def stop(self) -> None:
        self._is_on = False
        for _, log in self.logs():
            for producer_id in log.open_transactions():
                log.end_transaction(producer_id, 0, commit=False, now_ms=self._schedule.now_ms())

    def logs(self) -> Iterator[tuple[TopicKind, PartitionLog]]:
        """The partitions that applications write to, as they are now."""
        for name, kind in self.kinds.items():
            topic = self._cluster.topic_by_name.get(name)
            for log in topic.logs if topic is not None else ():
                yield kind, log

    def compact(self) -> None:
        """Clean a random beginning of every compacted log."""
        for kind, log in self.logs():
            if kind is TopicKind.COMPACTED:
                log.compact(self._rng.randint(0, log.end), now_ms=self._schedule.now_ms())

    def _tick(self) -> None:
        if self._is_on:
            self._write_once()
            self._schedule.after(self._rng.uniform(0.005, 0.12), self._tick)

    def _write_once(self) -> None:
        logs = list(self.logs())
        if not logs:
            return
        kind, log = self._rng.choice(logs)
        if kind is TopicKind.TRANSACTIONAL and self._rng.random() < 0.8:
            self._write_transactionally(log)
        elif self._rng.random() < 0.1:
            self._append(log, OTHER_MIRROR_PRODUCER_ID)
        else:
            self._append(log, None)

    def _write_transactionally(self, log: PartitionLog) -> None:
        producer_id = self._rng.choice(_APPLICATION_PRODUCER_IDS)
        is_open = producer_id in log.open_transactions()
        if is_open and self._rng.random() < 0.5:
            if not self._leaves_transactions_open:
                commit = self._rng.random() < 0.6
                log.end_transaction(producer_id, 0, commit=commit, now_ms=self._schedule.now_ms())
        else:
            self._append(log, producer_id, attributes=TRANSACTIONAL)

    def _append(self, log: PartitionLog, producer_id: int | None, *, attributes: int = 0) -> None:
        contents = [self._content() for _ in range(self._rng.randint(1, 12))]
        now_ms = self._schedule.now_ms()
        timestamps = [now_ms - self._age_ms + self._rng.randint(-500, 500) for _ in contents]
        if self._repeats is not None:
            contents, timestamps = _beats(self._repeats, timestamps)
        codec = self._rng.choice((0, 0, 1, 2, 3, 4))
        batches = [(contents, timestamps)]
        if self._sends_alone:
            codec, batches = 0, [([one], [at]) for one, at in zip(contents, timestamps, strict=True)]
        for records, times in batches:
            producer = self._producer(log, producer_id, len(records))
            batch = application_batch(records, times, attributes=attributes | codec, producer=producer)
            log.append(batch, now_ms=now_ms)

    def _producer(self, log: PartitionLog, producer_id: int | None, count: int) -> Producer:
        if producer_id is None:
            return Producer()
        key = (id(log), producer_id)
        sequence = self._sequences.get(key, 0)
        self._sequences[key] = next_sequence(sequence, count)
        return Producer(producer_id, 0, sequence)

    def _content(self) -> bytes:
        """A record of its own: its number and the cluster's name are in the headers."""
        self._written += 1
        value = None if self._rng.random() < 0.05 else self._rng.randbytes(self._rng.choice((1, 20, 300)))
        number = f"{self._cluster.alias}/{self._written}".encode()
        headers = [("n", number), ("n", None)][: self._rng.randint(1, 2)]
        return content(b"key-%d" % self._rng.randint(0, 30), value, headers)


def _beats(rng: random.Random, timestamps: list[int]) -> tuple[list[bytes], list[int]]:
    """The same key and value as ever, one record or two of them."""
    count = min(len(timestamps), rng.choice((1, 1, 1, 2)))
    return [content(b"host-1", b"up")] * count, timestamps[:count]
