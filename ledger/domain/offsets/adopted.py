"""Which records of a partition were copied there by something else than a flow, as far as a flow adopted them.

Their batches carry producer ids that nobody recorded. Only where they lie tells them from an application's: an
`adopted` row says so, whatever became of the map later, as long as the log holds there what it held then.
"""

from collections.abc import Iterable, Sequence

from ledger.domain.facts import OffsetSync, SyncCause, SyncKind, TopicPartition
from ledger.domain.offsets.offset_ranges import OffsetRange, joined, without

ADOPTION_KINDS = (SyncKind.ADOPTED, SyncKind.SUPERSEDED)
"""Kinds of rows that tell what was adopted, and that a log has lost its end since."""

AdoptionHistory = Sequence[OffsetSync]
"""The rows of these kinds of one flow and source partition, oldest first."""


def adopted_ranges(histories: Sequence[AdoptionHistory], *, held: TopicPartition) -> tuple[OffsetRange, ...]:
    """Offsets of `held` that hold adopted copies, ascending.

    What a log has lost may have been written again, by an application: from there on nothing counts. That goes
    for what the adopting flow knew when its target went back, and for every flow that saw `held` go back as its
    source, whenever that was: flows have no common order, and a record may rather be copied twice than not.
    """
    found = sorted(kept for history in histories for kept in _still_held(history, held))
    lost_from = [
        sync.source_start
        for history in histories
        for sync in history
        if sync.cause is SyncCause.SOURCE_TRUNCATED and _is(sync.source, held)
    ]
    return tuple(joined(_below(found, min(lost_from, default=None))))


def not_returning(
    adopted: Iterable[OffsetRange], returning: Sequence[OffsetRange]
) -> tuple[OffsetRange, ...]:
    """What stays left out when some of it is to go back to where it came from; both ascending."""
    return tuple(left for found in adopted for left in without(found, returning))


def _still_held(history: AdoptionHistory, held: TopicPartition) -> list[OffsetRange]:
    found: list[OffsetRange] = []
    for sync in history:
        if not _is(sync.target, held):
            continue
        if sync.kind is SyncKind.ADOPTED:
            found.append((sync.target_start, sync.target_end))
        elif sync.cause is SyncCause.TARGET_TRUNCATED:
            found = _below(found, sync.target_end)
    return found


def _below(ranges: Iterable[OffsetRange], end: int | None) -> list[OffsetRange]:
    return [
        (start, range_end if end is None else min(range_end, end))
        for start, range_end in ranges
        if start < range_end and (end is None or start < end)
    ]


def _is(partition: TopicPartition, held: TopicPartition) -> bool:
    return (partition.topic_id, partition.partition) == (held.topic_id, held.partition)
