"""Copy tasks without a network: put together by hand, one partition step by step, whole ones in simulated time."""

from dataclasses import dataclass, field, replace

from ledger.facts.identity import FlowProducer
from ledger.facts.state import MirrorProducers
from ledger.facts.syncs import FlowPosition, Gap, Position, TailKnowledge, TopicPartition
from ledger.kafka.cluster import TopicDescription
from ledger.kafka.requests import Fetched
from ledger.mirror.assignment import Assignment, CopyLimits, PartitionResult, RequestKind, StopCause
from ledger.mirror.partition import PartitionCopy
from ledger.mirror.steps import Copy
from ledger.mirror.task import CopyTask
from ledger.store.producers import CachedMirrorProducers
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.network import CalmWeather, MemoryNetwork
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import application_batch, content

# -- Fetched answers, copied steps and assignments -------------------------------------------------

SOURCE = TopicPartition("orders", "c291cmNlLWlkLS0tLS0tLQ", 0)
TARGET = TopicPartition("east.orders", "dGFyZ2V0LWlkLS0tLS0tLQ", 0)
OWN_PRODUCER_ID = 40
TOPICS = {
    partition.topic: TopicDescription(partition.topic, partition.topic_id, 2, 1, False)
    for partition in (SOURCE, TARGET)
}
"""What both clusters describe."""
RECORDED = FlowPosition(
    source_topic=SOURCE.topic,
    source_topic_id=SOURCE.topic_id,
    partition=0,
    target_topic=TARGET.topic,
    target_topic_id=TARGET.topic_id,
    position=Position(source_offset=30, target_offset=25, next_sequence=24, leader_epoch=2),
)
BOTH_SEEN = TailKnowledge(both_sides_seen=True)
"""What a task knows of the target that is not the first of its run."""


def copied_up_to(offset: int) -> Position:
    """From the first record on, without a gap on either side."""
    return Position(source_offset=offset, target_offset=offset, next_sequence=offset)


def moved(
    told: Assignment,
    *,
    source_offset: int | None = None,
    target_offset: int | None = None,
    next_sequence: int | None = None,
) -> Assignment:
    """The assignment of a flow that stands elsewhere; None: where it stood."""
    at = told.position
    position = replace(
        at,
        source_offset=at.source_offset if source_offset is None else source_offset,
        target_offset=at.target_offset if target_offset is None else target_offset,
        next_sequence=at.next_sequence if next_sequence is None else next_sequence,
    )
    return replace(told, position=position)


def assignment(
    *,
    position: int = 0,
    target_end: int = 0,
    next_sequence: int = 0,
    end_offset: int | None = None,
    exclusive: bool = True,
    source_may_be_deleted: bool = False,
    tail: TailKnowledge = BOTH_SEEN,
) -> Assignment:
    return Assignment(
        source=SOURCE,
        target=TARGET,
        position=Position(
            source_offset=position,
            target_offset=target_end,
            next_sequence=next_sequence,
            source_may_be_deleted=source_may_be_deleted,
        ),
        tail=tail,
        producer=FlowProducer(OWN_PRODUCER_ID),
        end_offset=end_offset,
        exclusive=exclusive,
    )


def writers(*mirrors: int) -> CachedMirrorProducers:
    """A directory in which the ids given are those of mirrors."""
    return CachedMirrorProducers(lambda: frozenset(mirrors))


def copy(start: int, end: int, *gaps: Gap, raw: bool = True, timestamp: int = 100) -> Copy:
    """The step that copies these source offsets in one batch."""
    count = end - start - sum(gap.source_end - gap.source_start for gap in gaps)
    batch = application_batch([content(b"k", b"%d" % start)] * count, [timestamp] * count).encoded()
    view = memoryview(bytearray(batch))
    return Copy(start, end, view, 0, count, gaps, raw, timestamp, timestamp, leader_epoch=4, whole=True)


def fetched_from(log: PartitionLog, offset: int, *, committed: bool = True) -> Fetched:
    """What a broker answers for everything from `offset` on."""
    read = log.read(offset, committed=committed, max_bytes=1 << 20, at_least_one=True)
    return answer(
        read.records, aborted=read.aborted, high_watermark=log.high_watermark, last_stable=log.last_stable
    )


def answer(
    records: bytes,
    *,
    aborted: tuple[tuple[int, int], ...] = (),
    high_watermark: int = 1_000,
    last_stable: int = 1_000,
) -> Fetched:
    view = memoryview(bytearray(records))
    return Fetched(SOURCE.topic, 0, 0, high_watermark, last_stable, 0, aborted, view, None)


# -- One partition, step by step -------------------------------------------------------------------

NOW_MS = 1_700_000_000_000
NODE = 1
FOREIGN = application_batch([content(b"not", b"ours")], [NOW_MS])


def source_log(*counts: int) -> PartitionLog:
    """One batch for each count."""
    log = PartitionLog()
    for number, count in enumerate(counts):
        contents = [content(b"%d-%d" % (number, n), b"v") for n in range(count)]
        log.append(application_batch(contents, [NOW_MS] * count), now_ms=NOW_MS)
    return log


class Target:
    """A target partition and a copy that writes to it, without a network between them."""

    def __init__(
        self,
        source: PartitionLog,
        told: Assignment,
        log: PartitionLog | None = None,
        *,
        merges_up_to: int = 0,
    ) -> None:
        self.source = source
        self.log = log or PartitionLog()
        self.copy = PartitionCopy(told, writers(), merges_up_to=merges_up_to)

    def read_tail(self) -> None:
        read = self.log.read(
            self.copy.target.tail.position,
            committed=False,
            max_bytes=1 << 20,
            at_least_one=True,
            last_epoch=self.copy.target.reading.last_epoch,
        )
        assert read.error == 0
        self.copy.target.take_tail(
            memoryview(bytearray(read.records)),
            high_watermark=self.log.high_watermark,
            diverging_end=None if read.diverging is None else read.diverging.end,
        )

    def fetch(self) -> None:
        self.copy.take_fetched(fetched_from(self.source, self.copy.source.position))

    def begin(self) -> None:
        """Read the tail, and then what is to be copied."""
        self.read_tail()
        self.fetch()

    def send(self) -> tuple[int, int]:
        """Send the next batch and let the target take it: (error, base offset), not yet acknowledged."""
        appended = self.log.produce(bytes(self.copy.send_next(NODE)), now_ms=NOW_MS)
        return appended.error, appended.base_offset

    def acknowledge(self, base_offset: int, *, after_ms: int = 0) -> None:
        """So long after the time that the records of `source_log` say."""
        self.lose_answer()
        self.copy.acknowledged(base_offset, at_ms=NOW_MS + after_ms)

    def lose_answer(self) -> None:
        """A batch that was sent is on its way no longer."""
        self.copy.requests.answered(RequestKind.WRITE, self.copy.requests.attempt)

    def copy_all(self) -> None:
        self.read_tail()
        self.fetch()
        while self.copy.target.wants_tail(0.0):
            self.read_tail()
            if not self.copy.target.tail.needs_read:
                self.fetch()
        while self.copy.next_copy is not None:
            error, base_offset = self.send()
            assert error == 0
            self.acknowledge(base_offset)

    def ranges(self) -> list[tuple[int, int, int, int, bool]]:
        return [
            (s.source_start, s.source_end, s.target_start, s.target_end, s.recovered)
            for s in self.copy.result().syncs
        ]

    @property
    def stop(self) -> StopCause | None:
        return None if self.copy.target.stop is None else self.copy.target.stop.cause


# -- Whole tasks -----------------------------------------------------------------------------------

_LIMITS = CopyLimits(
    partition_fetch_bytes=2_000, max_wait_ms=50, request_timeout_ms=1_000, drain_ms=100, merged_bytes=0
)


@dataclass
class Bench:
    """Topic `orders` of two partitions at `east`, its copies at `west`, and a network between them."""

    schedule: Schedule = field(default_factory=Schedule)
    weather: CalmWeather = field(default_factory=CalmWeather)
    writers: MirrorProducers = field(default_factory=writers)

    def __post_init__(self) -> None:
        self.source = MemoryCluster("east", self.schedule)
        self.target = MemoryCluster("west", self.schedule)
        for cluster in (self.source, self.target):
            cluster.create_topic("orders", partitions=2, replication_factor=1, configuration={})

    def write(self, *counts: int, partition: int = 0) -> None:
        for count in counts:
            offset = self.source_log(partition).end
            contents = [content(b"%d" % (offset + n), b"v" * 50) for n in range(count)]
            self.source_log(partition).append(application_batch(contents, [NOW_MS] * count), now_ms=NOW_MS)

    def source_log(self, partition: int = 0) -> PartitionLog:
        return self.source.log("orders", partition)

    def target_log(self, partition: int = 0) -> PartitionLog:
        return self.target.log("orders", partition)

    def assignment(
        self, partition: int = 0, *, exclusive: bool = True, end_offset: int | None = None
    ) -> Assignment:
        source, target = (
            TopicPartition("orders", cluster.topic_by_name["orders"].topic_id, partition)
            for cluster in (self.source, self.target)
        )
        return Assignment(
            source=source,
            target=target,
            position=Position(
                source_offset=self.source_log(partition).log_start, target_offset=0, next_sequence=0
            ),
            tail=BOTH_SEEN,
            producer=FlowProducer(OWN_PRODUCER_ID),
            end_offset=self.source_log(partition).end if end_offset is None else end_offset,
            exclusive=exclusive,
        )

    def run(self, *assignments: Assignment, seconds: float = 5.0, **limits: int) -> list[PartitionResult]:
        """`limits`: in place of those of `CopyLimits`."""
        network = MemoryNetwork(self.source, self.target, self.schedule, self.weather)
        task = CopyTask(assignments, network, self.writers, self.schedule, replace(_LIMITS, **limits))
        results = task.run(seconds=seconds)
        assert network.is_idle
        return sorted(results, key=lambda result: result.assignment.source.partition)

    def is_copied(self, partition: int = 0) -> bool:
        source, target = self.source_log(partition), self.target_log(partition)
        return [r.content for r in source.readable()] == [r.content for r in target.readable()]


def cause(result: PartitionResult) -> StopCause | None:
    return None if result.stop is None else result.stop.cause
