"""The map of one flow: which source offsets became which target offsets.

All ranges are half-open. A map is what holds after supersession, in the target incarnation that the flow went to last.
What was superseded and is not copied again yet lies beyond its end. Copies of it that the target holds still are the
only ones until then, and so are those of what was lost instead of copied again (`earlier_copies`): nothing passes them.

Invariants of an `OffsetMap`
    M1  segments and unmapped stretches tile the source: ascending, no hole, no overlap
    M2  target ranges, unpaired ones among them, rise in the same order
    M3  everything belongs to one flow, one source and one target partition, and one topic id of each
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ledger.errors import InvalidValueError
from ledger.facts.history import Segment, expand
from ledger.facts.syncs import (
    LOST_AT_SOURCE,
    MAPPED,
    OffsetSync,
    SyncKind,
    TopicPartition,
    effective,
)
from tests.support.algebra.stretches import Unmapped, UnmappedKind, Unpaired, check_sync, unmapped, unpaired

# Earlier copies -----------------------------------------------------------------------------------
# Copies that supersession took out of a map, that the target holds still, and that were not made again.
#
# A `resync` has records copied again that lie at the target already. Until they are, and where the source
# has deleted them before, the earlier copies are the only ones. They lie in front of where the flow
# continued, whatever their source offsets, so they are no segments of the map: they rise in no order with
# it.
#
# What the source truncated, and what lay where the target's log ended, is no copy of anything any more.
# What was left out when it was copied again was left out for a reason.


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
        if sync.cause in LOST_AT_SOURCE:
            end = min(end, sync.source_start)
    yield from _part(segment, segment.source_start, end)


def _part(segment: Segment, start: int, end: int) -> Iterator[Segment]:
    low, high = max(segment.source_start, start), min(segment.source_end, end)
    if low < high:
        yield Segment(low, high, segment.target_start + low - segment.source_start)


# Offset map ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class EpochStart:
    """The first source offset of a map whose batch was of a leader epoch."""

    leader_epoch: int
    source_start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMap:
    """All that holds of what one flow recorded of a source partition and topic id into a target partition.

    A partition that the flow has only started with has neither segments nor unmapped stretches: its map is
    the place where source and target stood. `earlier`: earlier copies of what is not copied again, ascending.
    """

    flow: str
    source: TopicPartition
    target: TopicPartition
    segments: tuple[Segment, ...]
    unmapped: tuple[Unmapped, ...]
    unpaired: tuple[Unpaired, ...]
    source_start: int
    source_end: int
    target_end: int
    epoch_starts: tuple[EpochStart, ...] = ()
    earlier: tuple[Segment, ...] = ()

    def __post_init__(self) -> None:
        _check_m1(self)
        _check_m2(self)

    @classmethod
    def from_syncs(cls, flow: str, syncs: Sequence[OffsetSync]) -> "OffsetMap":
        """The map of one flow's offset syncs, oldest first (`recording_order`).

        It is of the target that the last one names; what went to an earlier incarnation is left out.
        Refused when they break M1, M2 or M3.
        """
        if not syncs:
            raise InvalidValueError(f"an offset map of flow {flow} needs at least one offset sync")
        _check_m3(syncs)
        for sync in syncs:
            check_sync(sync)
        last = effective(syncs[-1:])[0]
        target = last.target
        kept = sorted((sync for sync in effective(syncs) if sync.target == target), key=_place)
        _check_syncs_tile(kept)
        _check_syncs_rise(kept)
        left_out = tuple(stretch for sync in kept for stretch in unmapped(sync))
        return cls(
            flow=flow,
            source=kept[0].source,
            target=target,
            segments=tuple(segment for sync in kept for segment in expand(sync)),
            unmapped=left_out,
            unpaired=tuple(
                unpaired(sync) for sync in kept if sync.kind is SyncKind.UNPAIRED and sync.records
            ),
            source_start=kept[0].source_start,
            source_end=last.source_end,
            target_end=last.target_end,
            epoch_starts=_epoch_starts(kept),
            earlier=earlier_copies(syncs, target=target, unmapped=left_out, source_end=last.source_end),
        )

    def next_target(self, source_offset: int) -> int:
        """Where the first record lies that the map, or an earlier copy, has at a source offset or behind it.

        Unpaired records behind the last copy before it count; without any the end of the map.
        """
        following = bisect_right(self.segments, source_offset, key=lambda segment: segment.source_end)
        read_to = self.segments[following - 1].target_end if following else 0
        unpaired = (one.target_start for one in self.unpaired if one.target_start >= read_to)
        found = [self.target_end]
        for segment in self.segments[following : following + 1]:
            passed = source_offset - segment.source_start
            found = [segment.target_start + passed] if passed >= 0 else [segment.target_start, *unpaired]
        if following == len(self.segments):
            found += unpaired
        earlier = (one for one in self.earlier if one.source_end > source_offset)
        return min(
            [*found, *(one.target_start + max(source_offset - one.source_start, 0) for one in earlier)]
        )


def _epoch_starts(syncs: Sequence[OffsetSync]) -> tuple[EpochStart, ...]:
    """Of rows that tell of batches: the others carry the epoch of what came before them."""
    starts: dict[int, int] = {}
    for sync in syncs:
        if sync.kind in MAPPED and sync.source_leader_epoch is not None:
            start = starts.get(sync.source_leader_epoch, sync.source_start)
            starts[sync.source_leader_epoch] = min(start, sync.source_start)
    return tuple(EpochStart(epoch, start) for epoch, start in sorted(starts.items()))


def _place(sync: OffsetSync) -> tuple[int, int, int, int]:
    """Along the source; what says only where the flow stood comes before what starts there."""
    return sync.source_start, sync.source_end, sync.target_start, sync.target_end


def _check_m1(offset_map: OffsetMap) -> None:
    _check_ascending(offset_map.segments)
    _check_ascending(offset_map.unmapped)
    stretches: list[Segment | Unmapped] = [*offset_map.segments, *offset_map.unmapped]
    stretches.sort(key=lambda stretch: stretch.source_start)
    ends = [offset_map.source_start, *(stretch.source_end for stretch in stretches)]
    starts = [*(stretch.source_start for stretch in stretches), offset_map.source_end]
    for end, start in zip(ends, starts, strict=True):
        if end != start:
            raise InvalidValueError(f"M1: a map must tile the source, got {start} after {end}")


def _check_ascending(stretches: Sequence[Segment | Unmapped]) -> None:
    for before, after in pairwise(stretches):
        if before.source_start >= after.source_start:
            raise InvalidValueError(
                f"M1: stretches must ascend, got {after.source_start} after {before.source_start}"
            )


def _check_m2(offset_map: OffsetMap) -> None:
    _check_rise(offset_map.unpaired, offset_map.target_end)
    _check_rise(offset_map.segments, offset_map.target_end)


def _check_rise(stretches: Sequence[Segment | Unpaired], target_end: int) -> None:
    ends = [stretch.target_end for stretch in stretches]
    starts = [*(stretch.target_start for stretch in stretches[1:]), target_end]
    for end, start in zip(ends, starts, strict=False):
        if start < end:
            raise InvalidValueError(f"M2: target ranges must rise, got {start} after {end}")


def _check_syncs_tile(syncs: Sequence[OffsetSync]) -> None:
    for before, after in pairwise(syncs):
        if before.source_end != after.source_start:
            raise InvalidValueError(
                f"M1: offset syncs must tile the source, got {after.source_start} after {before.source_end}"
            )


def _check_syncs_rise(syncs: Sequence[OffsetSync]) -> None:
    """A row without target offsets says where the target stood; a target that was cut later may stand lower.

    So does an unpaired row without records of the flow.
    """
    with_target = [
        sync
        for sync in syncs
        if sync.target_start < sync.target_end and (sync.records or sync.kind is not SyncKind.UNPAIRED)
    ]
    for before, after in pairwise(with_target):
        if after.target_start < before.target_end:
            raise InvalidValueError(
                f"M2: target ranges must rise, got {after.target_start} after {before.target_end}"
            )


def _check_m3(syncs: Sequence[OffsetSync]) -> None:
    for sync in syncs:
        if sync.source != syncs[0].source:
            raise InvalidValueError(
                f"M3: one source partition and topic id, got {sync.source} beside {syncs[0].source}"
            )
