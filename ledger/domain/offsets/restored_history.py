"""Which records of a mirrored topic are to go back to where they came from: their origin is not there any more.

A flow leaves out what mirrors wrote. But when the topic that it writes to was recreated, or its cluster
rebuilt, the copies that another flow had made of the earlier incarnation are all that is left of it: these
stretches are copied back. What several clusters hold comes back from one of them only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger.domain.facts import OffsetSync, SyncKind, TopicPartition
from ledger.domain.offsets.offset_ranges import OffsetRange, joined, without
from ledger.domain.offsets.stretches import Segment, expand

_PAIRED = (SyncKind.COPIED, SyncKind.ADOPTED)


@dataclass(frozen=True, slots=True)
class FormerCopy:
    """What a flow has copied, after supersession, of a partition that is not there any more."""

    source_topic: str
    target_cluster: str
    syncs: tuple[OffsetSync, ...]

    def segments(self) -> Iterator[tuple[OffsetSync, Segment]]:
        """Where its records went; what lies at the target without a source offset is not among them."""
        for sync in self.syncs:
            if sync.kind in _PAIRED:
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
