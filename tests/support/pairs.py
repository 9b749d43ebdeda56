"""Pairs of partitions told by a few rows: east and west, and north where a third log is needed."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ledger.facts.syncs import OffsetRange, OffsetSync, PartitionPair, TopicPartition
from ledger.offsets.first_unread import Ends, Place, first_unread, known_pair
from ledger.offsets.links import RecordedFlow, TimedSync
from ledger.offsets.read import KnownGroup, Move
from ledger.offsets.translation import Commit, SeenEnd

EAST = TopicPartition("orders", "east-id", 0)
WEST = TopicPartition("orders", "west-id", 0)
NORTH = TopicPartition("orders", "north-id", 0)
LONG_AFTER_MS = 10_000_000


def flow(
    source: TopicPartition, target: TopicPartition, *rows: OffsetSync, at_ms: Sequence[int] = ()
) -> RecordedFlow:
    """A flow that recorded these rows, by default long ago; what says its own source or target keeps it."""
    placed = [_placed(row, source, target) for row in rows]
    times = at_ms or range(len(rows))
    return RecordedFlow("flow", [TimedSync(row, at) for row, at in zip(placed, times, strict=True)])


def _placed(row: OffsetSync, source: TopicPartition, target: TopicPartition) -> OffsetSync:
    is_elsewhere = row.target.topic_id.startswith("former")
    return replace(row, source=source, target=row.target if is_elsewhere else target)


def of_epoch(epoch: int, row: OffsetSync) -> OffsetSync:
    return replace(row, source_leader_epoch=epoch)


def at(offset: int, partition: TopicPartition = WEST, leader_epoch: int | None = None) -> Commit:
    """A commit that was made lately."""
    return Commit(
        offset=offset,
        topic_id=partition.topic_id,
        leader_epoch=leader_epoch,
        made_after_ms=LONG_AFTER_MS,
    )


def place(
    flows: Sequence[RecordedFlow],
    here: Commit | None,
    *,
    there: Commit | None = None,
    set_there: Commit | None = None,
    has_been_there: bool = False,
    moved: tuple[Commit | None, int] | None = None,
    highest_seen: int | None = None,
    is_seen: bool = True,
    ends: tuple[int, int] | None = None,
    seen_here: tuple[SeenEnd, ...] = (),
    kept_local: Iterable[OffsetRange] = (),
    ways: Iterable[tuple[TopicPartition, TopicPartition]] = (),
    relayed: Iterable[tuple[TopicPartition, TopicPartition]] = (),
    earlier_incarnations: frozenset[str] = frozenset(),
    is_to_west: bool = False,
) -> Place:
    """Where a group at west goes on at east; with `is_to_west` the other way. `moved`: from a commit there to here.

    `is_seen`: its commit here was seen since then.
    """
    one, other = (EAST, WEST) if is_to_west else (WEST, EAST)
    pair = known_pair(
        here=one,
        there=other,
        flows=flows,
        ways=[PartitionPair(*way) for way in ways],
        relayed=[PartitionPair(*way) for way in relayed],
        ends_here=Ends(log_start=0, high_watermark=0, seen=seen_here),
        ends_there=None if ends is None else Ends(log_start=ends[0], high_watermark=ends[1]),
        kept_local=kept_local,
        earlier_incarnations=earlier_incarnations,
    )
    move = None if moved is None else Move(left=moved[0], arrived_at=moved[1], here_topic_id=one.topic_id)
    if highest_seen is None and here is not None and is_seen:
        highest_seen = max(here.offset, 0 if moved is None else moved[1])
    group = KnownGroup(
        here=here,
        there=there,
        move=move,
        highest_seen=highest_seen,
        set_there=set_there,
        has_been_there=has_been_there,
    )
    return first_unread(pair, group)
