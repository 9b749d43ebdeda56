"""Copies that supersession took out of a map, that the target holds still, and that were not made again.

A `resync` has records copied again that lie at the target already. Until they are, and where the source has deleted
them before, the earlier copies are the only ones. They lie in front of where the flow continued, whatever their source
offsets, so they are no segments of the map: they rise in no order with it.

What the source truncated, and what lay where the target's log ended, is no copy of anything any more. What was left out
when it was copied again was left out for a reason.
"""

from collections.abc import Iterable, Iterator, Sequence

from ledger.domain.facts import OffsetSync, SyncCause, SyncKind, TopicPartition
from ledger.domain.offsets.stretches import MAPPED, Segment, Unmapped, UnmappedKind, expand


def earlier_copies(
    syncs: Sequence[OffsetSync], *, target: TopicPartition, unmapped: Iterable[Unmapped], source_end: int
) -> tuple[Segment, ...]:
    """Those of all syncs of a map, oldest first, with what the map left out and where it ends; ascending."""
    if not any(sync.kind is SyncKind.SUPERSEDED for sync in syncs):
        return ()
    lost = [one for one in unmapped if one.kind is UnmappedKind.LOST]
    end = max([source_end, *(sync.source_end for sync in syncs)])
    missing = [*((one.source_start, one.source_end) for one in lost), (source_end, end)]
    found = (
        part
        for index, sync in enumerate(syncs)
        if sync.kind in MAPPED and sync.target == target
        for segment in expand(sync)
        for held in still_held(segment, syncs[index + 1 :])
        for start, end in missing
        for part in _part(held, start, end)
    )
    return tuple(sorted(found))


def still_held(segment: Segment, later: Iterable[OffsetSync]) -> Iterator[Segment]:
    """What of a copy lies at the target still, and of a record that the source did not truncate, by later rows."""
    end = segment.source_end
    for sync in later:
        if sync.kind is SyncKind.SUPERSEDED:
            end = min(end, segment.source_start + sync.target_start - segment.target_start)
        if sync.cause is SyncCause.SOURCE_TRUNCATED:
            end = min(end, sync.source_start)
    yield from _part(segment, segment.source_start, end)


def _part(segment: Segment, start: int, end: int) -> Iterator[Segment]:
    low, high = max(segment.source_start, start), min(segment.source_end, end)
    if low < high:
        yield Segment(low, high, segment.target_start + low - segment.source_start)
