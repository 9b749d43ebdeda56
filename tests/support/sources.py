"""Fetched answers, copied steps and assignments that the tests of the mirror put together by hand."""

from dataclasses import replace

from ledger.facts.syncs import FlowPosition, Gap, Position, TailKnowledge, TopicPartition
from ledger.kafka.cluster import TopicDescription
from ledger.kafka.requests import Fetched
from ledger.mirror.assignment import Assignment
from ledger.mirror.batches import Copy
from ledger.store.producers import CachedMirrorProducers
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import application_batch, content

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
        producer_id=OWN_PRODUCER_ID,
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
    return Copy(start, end, view, 0, count, gaps, raw, timestamp, timestamp, leader_epoch=4)


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
