"""What maps say of the past of a topic: stretches of a row, what was adopted, what is to go back to its origin."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ledger.errors import InvalidValueError
from ledger.facts.syncs import (
    LOST_AT_SOURCE,
    MAPPED,
    OffsetRange,
    OffsetSync,
    SyncCause,
    SyncKind,
    TopicPartition,
    joined,
    without,
)

# Stretches ----------------------------------------------------------------------------------------
# The segments that one offset sync says were copied.
#
# All ranges are half-open. A sync of a copy that breaks the rules of its kind is refused.


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """Source offsets `[source_start, source_end)` landed, in order, from `target_start`."""

    source_start: int
    source_end: int
    target_start: int

    def __post_init__(self) -> None:
        _check_range("a segment", self.source_start, self.source_end)
        if self.target_start < 0:
            raise InvalidValueError(f"a segment needs target_start >= 0, got {self.target_start}")

    @property
    def target_end(self) -> int:
        return self.target_start + self.source_end - self.source_start


def expand(sync: OffsetSync) -> tuple[Segment, ...]:
    """The segments of one offset sync: its target range is contiguous, gaps take no place on the target."""
    if sync.kind not in MAPPED:
        return ()
    _check_copied(sync)
    starts = (sync.source_start, *(gap.source_end for gap in sync.gaps))
    ends = (*(gap.source_start for gap in sync.gaps), sync.source_end)
    segments, target = [], sync.target_start
    for start, end in zip(starts, ends, strict=True):
        if start < end:
            segments.append(Segment(start, end, target))
            target += end - start
    return tuple(segments)


def _check_copied(sync: OffsetSync) -> None:
    _check_range("an offset sync", sync.source_start, sync.source_end)
    previous_end = sync.source_start
    for gap in sync.gaps:
        _check_range("a gap", gap.source_start, gap.source_end)
        if not previous_end <= gap.source_start < gap.source_end <= sync.source_end:
            raise InvalidValueError(
                f"gaps must ascend inside [{sync.source_start}, {sync.source_end}), "
                f"got [{gap.source_start}, {gap.source_end}) after {previous_end}"
            )
        previous_end = gap.source_end
    copied = sync.source_end - sync.source_start - sum(gap.source_end - gap.source_start for gap in sync.gaps)
    if sync.target_end - sync.target_start != copied:
        raise InvalidValueError(
            f"an offset sync with {copied} copied source offsets must cover as many target offsets, "
            f"got [{sync.target_start}, {sync.target_end})"
        )


def _check_range(what: str, source_start: int, source_end: int) -> None:
    if not 0 <= source_start < source_end:
        raise InvalidValueError(
            f"{what} needs 0 <= source_start < source_end, got [{source_start}, {source_end})"
        )


# Restored history ---------------------------------------------------------------------------------
# Which records of a mirrored topic are to go back to where they came from: their origin is not there any
# more.
#
# A flow leaves out what mirrors wrote. But when the topic that it writes to was recreated, or its cluster
# rebuilt, the copies that another flow had made of the earlier incarnation are all that is left of it:
# these stretches are copied back. What several clusters hold comes back from one of them only.


@dataclass(frozen=True, slots=True)
class FormerCopy:
    """What a flow has copied, after supersession, of a partition that is not there any more."""

    source_topic: str
    target_cluster: str
    syncs: tuple[OffsetSync, ...]

    def segments(self) -> Iterator[tuple[OffsetSync, Segment]]:
        """Where its records went; what lies at the target without a source offset is not among them."""
        for sync in self.syncs:
            if sync.kind in MAPPED:
                yield from ((sync, segment) for segment in expand(sync))


def returning_ranges(
    copies: Sequence[FormerCopy], *, held: TopicPartition, elsewhere: frozenset[str]
) -> tuple[OffsetRange, ...]:
    """Offsets of `held` that hold the only copies of lost records, ascending and apart from each other.

    `elsewhere`: clusters from which the same topic comes back by a flow that goes before this one; only
    what they do not hold returns from here.
    """
    found = sorted(
        (
            segment.target_start + start - segment.source_start,
            segment.target_start + end - segment.source_start,
        )
        for copy in copies
        for sync, segment in copy.segments()
        if (sync.target.topic_id, sync.target.partition) == (held.topic_id, held.partition)
        for start, end in without(
            (segment.source_start, segment.source_end), _held_by(copies, sync.source, elsewhere)
        )
    )
    return tuple(joined(found))


def _held_by(
    copies: Sequence[FormerCopy], origin: TopicPartition, clusters: frozenset[str]
) -> list[OffsetRange]:
    """Offsets of the origin that those clusters got."""
    return sorted(
        (segment.source_start, segment.source_end)
        for copy in copies
        if copy.target_cluster in clusters
        for sync, segment in copy.segments()
        if (sync.source.topic_id, sync.source.partition) == (origin.topic_id, origin.partition)
    )


# Adopted ------------------------------------------------------------------------------------------
# Which records of a partition were copied there by something else than a flow, as far as a flow adopted
# them.
#
# Their batches carry producer ids that nobody recorded. Only where they lie tells them from an
# application's: an `adopted` row says so, whatever became of the map later, as long as the log holds there
# what it held then.


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
        if sync.cause in LOST_AT_SOURCE and _is(sync.source, held)
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
