"""Where a source offset lands on the target, by the map of one flow.

All ranges are half-open. There is one rule: an offset lands on its own record, else on the first record after
the last copied one below it, and on the end of the map when there is none. Unpaired records count there,
for nobody can tell that the group has read them. So a translation never passes an unread record of the map:
following it may repeat records and never skips one. The statuses say why the answer is what it is.

What mirrors wrote at the source is in no flow's map of it, so one map alone cannot tell where a group stands
with it. There is no answer (`mirrored`) while such records lie at or behind the offset: at the target they may
lie before the place where it lands. Nor is there where another flow writes to the source topic, and before that
place the target holds a record that is not of this map: it may lie behind the map's end, or not have come there yet.
`translation` has what else is to be known of a commit.
A map is what holds after supersession, in the target incarnation that the flow went to last. What was
superseded and is not copied again yet lies beyond its end. Copies of it that the target holds still are the only ones
until then, and so are those of what was lost instead of copied again (`earlier_copies`): nothing passes them.

Invariants of an `OffsetMap`
    M1  segments and unmapped stretches tile the source: ascending, no hole, no overlap
    M2  target ranges, unpaired ones among them, rise in the same order
    M3  everything belongs to one flow, one source and one target partition, and one topic id of each
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ledger.errors import InvalidValueError
from ledger.facts.history import Segment, expand
from ledger.facts.syncs import (
    LOST_AT_SOURCE,
    MAPPED,
    GapCause,
    OffsetSync,
    SyncKind,
    TopicPartition,
    effective,
)
from ledger.offsets.statuses import TranslationStatus
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


@dataclass(frozen=True, slots=True)
class Translation:
    """Where a group resumes on the target.

    `target_offset` is never below the target's log start, whatever the status: `expired_offsets` counts
    what lies between the answer of the map and that start. `ahead_offsets` counts what was read beyond
    the end of the map. Without an offset neither is counted.
    """

    target_offset: int | None
    status: TranslationStatus
    expired_offsets: int = 0
    ahead_offsets: int = 0


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

    def translate(
        self, committed_offset: int, target_log_start: int | None = None, *, is_source_written: bool = False
    ) -> Translation:
        """Where a commit of this map's topic id lands on the target.

        `is_source_written`: another flow writes to the source topic, and this one leaves out what mirrors write.
        """
        earlier = list(self._earlier_from(committed_offset, target_log_start or 0))
        answer = min([self._next_target(committed_offset), *(copy.target_start for copy in earlier)])
        readable = answer if target_log_start is None else max(answer, target_log_start)
        is_unreported = is_source_written and readable > self.held_to(target_log_start or 0)
        if is_unreported or committed_offset < self.mirror_write_end:
            return Translation(None, TranslationStatus.MIRRORED)
        return Translation(
            target_offset=readable,
            status=self._status(
                committed_offset,
                is_copied_before=any(copy.source_start == committed_offset for copy in earlier),
                is_followed=bool(earlier)
                or any(one.source_end > committed_offset for one in self.segments[-1:]),
                expired=readable > answer,
            ),
            expired_offsets=readable - answer,
            ahead_offsets=max(committed_offset - self.source_end, 0),
        )

    @property
    def mirror_write_end(self) -> int:
        """The source offset after the last one that a mirror is known to have written; 0 without one."""
        return max((one.source_end for one in self.unmapped if one.cause is GapCause.MIRROR_WRITE), default=0)

    def held_to(self, target_start: int) -> int:
        """The first target offset from `target_start` on at which no record of this map lies."""
        stretches: list[Segment | Unpaired] = [*self.segments, *self.unpaired]
        reached = target_start
        for start, end in sorted((stretch.target_start, stretch.target_end) for stretch in stretches):
            if start > reached:
                break
            reached = max(reached, end)
        return reached

    def start_after_epoch(self, leader_epoch: int) -> int | None:
        """Where the first later leader epoch begins: no commit of this one can lie beyond. None without one."""
        later = (start.source_start for start in self.epoch_starts if start.leader_epoch > leader_epoch)
        return min(later, default=None)

    def _next_target(self, committed_offset: int) -> int:
        following = bisect_right(self.segments, committed_offset, key=lambda segment: segment.source_end)
        read_to = self.segments[following - 1].target_end if following else 0
        if following == len(self.segments):
            return self._first_unpaired(read_to, self.target_end)
        segment = self.segments[following]
        if segment.source_start > committed_offset:
            return self._first_unpaired(read_to, segment.target_start)
        return segment.target_start + committed_offset - segment.source_start

    def _earlier_from(self, source_offset: int, target_offset: int) -> Iterator[Segment]:
        """What of earlier copies has no lower offset than these, at the source and at the target."""
        for copy in self.earlier:
            passed = max(source_offset - copy.source_start, target_offset - copy.target_start, 0)
            if passed < copy.source_end - copy.source_start:
                yield Segment(copy.source_start + passed, copy.source_end, copy.target_start + passed)

    def _first_unpaired(self, start: int, end: int) -> int:
        """The first unpaired record among target offsets `[start, end)`, else `end`."""
        following = bisect_left(self.unpaired, start, key=lambda unpaired: unpaired.target_start)
        first = self.unpaired[following].target_start if following < len(self.unpaired) else end
        return min(first, end)

    def _status(
        self, committed_offset: int, *, is_copied_before: bool, is_followed: bool, expired: bool
    ) -> TranslationStatus:
        if committed_offset < self.source_start:
            return TranslationStatus.BEFORE_FIRST
        stretch = self._unmapped_at(committed_offset)
        if stretch is not None and stretch.kind is UnmappedKind.LOST and not is_copied_before:
            return TranslationStatus.LOST
        if expired:
            return TranslationStatus.EXPIRED_ON_TARGET
        if is_copied_before:
            return TranslationStatus.EXACT
        if stretch is not None:
            return TranslationStatus.EXACT if is_followed else TranslationStatus.AT_END
        return self._covered_status(committed_offset)

    def _covered_status(self, committed_offset: int) -> TranslationStatus:
        if committed_offset < self.source_end:
            return TranslationStatus.EXACT
        return TranslationStatus.AHEAD if committed_offset > self.source_end else TranslationStatus.AT_END

    def _unmapped_at(self, committed_offset: int) -> Unmapped | None:
        following = bisect_right(self.unmapped, committed_offset, key=lambda stretch: stretch.source_end)
        if following == len(self.unmapped):
            return None
        stretch = self.unmapped[following]
        return stretch if stretch.source_start <= committed_offset else None


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
