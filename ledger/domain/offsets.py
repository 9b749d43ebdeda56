"""Offset algebra: where a committed source offset lands on the target, and the way back.

All ranges are half-open. There is one rule: a commit lands on the first copied record at or after it,
and on the end of the map when there is none. So a translation never passes an unread record: following it
may repeat records and never skips one. The statuses say why the answer is what it is.

Invariants of an `OffsetMap`
    M1  segments and unmapped stretches tile the source: ascending, no hole, no overlap
    M2  target ranges rise in the same order
    M3  everything belongs to one flow, one source and one target partition, and one topic id of each

Rows of kind `superseded` take no part: this version writes none. A later one clips the map by them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from ledger.domain.facts import GapCause, OffsetSync, SyncCause, SyncKind, TopicPartition
from ledger.errors import InvalidValueError


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


class UnmappedKind(StrEnum):
    """What a stretch without a copied record is."""

    GAP = "gap"
    LOST = "lost"


@dataclass(frozen=True, slots=True, order=True)
class Unmapped:
    """Source offsets without a copied record; `target_start` is where the target stood."""

    source_start: int
    source_end: int
    target_start: int
    kind: UnmappedKind
    cause: GapCause | SyncCause

    def __post_init__(self) -> None:
        _check_range(f"a {self.kind} stretch", self.source_start, self.source_end)


class TranslationStatus(StrEnum):
    """Why a translation is what it is. The first that applies, in this order, is reported."""

    NO_MAP = "no_map"  # nothing recorded for this flow and partition
    OTHER_INCARNATION = "other_incarnation"  # the commit belongs to another topic id
    BEFORE_FIRST = "before_first"  # below the first recorded source offset
    LOST = "lost"  # inside a lost stretch
    EXPIRED_ON_TARGET = "expired_on_target"  # the exact answer lies below the target's log start
    EXACT = "exact"  # inside a segment
    GAP = "gap"  # inside a gap
    AT_END = "at_end"  # equal to the end of the map
    AHEAD = "ahead"  # beyond the map: the group read what was never copied


@dataclass(frozen=True, slots=True)
class Translation:
    """Where a group resumes on the target.

    `target_offset` is never below the target's log start, whatever the status: `expired_offsets` counts
    what lies between the answer of the map and that start. `ahead_offsets` counts what was read beyond
    the end of the map.
    """

    target_offset: int | None
    status: TranslationStatus
    expired_offsets: int = 0
    ahead_offsets: int = 0


@dataclass(frozen=True, slots=True)
class ReverseTranslation:
    """Where a group that read the target resumes at the source.

    `status` is one of `before_first`, `exact`, `gap` (between segments), `at_end` and `ahead`.
    """

    source_offset: int
    status: TranslationStatus
    ahead_offsets: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMap:
    """All that one flow recorded of one source partition and topic id into one target partition."""

    flow: str
    source: TopicPartition
    target: TopicPartition
    segments: tuple[Segment, ...]
    unmapped: tuple[Unmapped, ...]
    target_end: int

    def __post_init__(self) -> None:
        _check_m1(self)
        _check_m2(self)

    @classmethod
    def from_syncs(cls, flow: str, syncs: Iterable[OffsetSync]) -> "OffsetMap":
        """The map of one flow's offset syncs, in any order; refused when they break M1, M2 or M3."""
        kept = sorted((s for s in syncs if s.source_start < s.source_end), key=lambda s: s.source_start)
        if not kept:
            raise InvalidValueError(f"an offset map of flow {flow} needs at least one offset sync")
        _check_m3(kept)
        _check_syncs_rise(kept)
        return cls(
            flow=flow,
            source=kept[0].source,
            target=kept[0].target,
            segments=tuple(segment for sync in kept for segment in expand(sync)),
            unmapped=tuple(stretch for sync in kept for stretch in unmapped(sync)),
            target_end=kept[-1].target_end,
        )

    @property
    def source_start(self) -> int:
        return min(stretch[0].source_start for stretch in (self.segments, self.unmapped) if stretch)

    @property
    def source_end(self) -> int:
        return max(stretch[-1].source_end for stretch in (self.segments, self.unmapped) if stretch)

    def translate(self, committed_offset: int, target_log_start: int | None = None) -> Translation:
        """Where a commit of this map's topic id lands on the target."""
        answer = self._next_target(committed_offset)
        readable = answer if target_log_start is None else max(answer, target_log_start)
        return Translation(
            target_offset=readable,
            status=self._status(committed_offset, expired=readable > answer),
            expired_offsets=readable - answer,
            ahead_offsets=max(committed_offset - self.source_end, 0),
        )

    def reverse(self, target_offset: int) -> ReverseTranslation:
        """Where a group that would read `target_offset` next resumes at the source."""
        following = bisect_right(self.segments, target_offset, key=lambda segment: segment.target_end)
        if following == len(self.segments):
            return self._reverse_beyond(target_offset)
        segment = self.segments[following]
        if segment.target_start <= target_offset:
            source_offset = segment.source_start + target_offset - segment.target_start
            return ReverseTranslation(source_offset, TranslationStatus.EXACT)
        status = TranslationStatus.GAP if following else TranslationStatus.BEFORE_FIRST
        return ReverseTranslation(segment.source_start, status)

    def _next_target(self, committed_offset: int) -> int:
        following = bisect_right(self.segments, committed_offset, key=lambda segment: segment.source_end)
        if following == len(self.segments):
            return self.target_end
        segment = self.segments[following]
        return segment.target_start + max(committed_offset - segment.source_start, 0)

    def _status(self, committed_offset: int, *, expired: bool) -> TranslationStatus:
        if committed_offset < self.source_start:
            return TranslationStatus.BEFORE_FIRST
        stretch = self._unmapped_at(committed_offset)
        if stretch is not None and stretch.kind is UnmappedKind.LOST:
            return TranslationStatus.LOST
        if expired:
            return TranslationStatus.EXPIRED_ON_TARGET
        if stretch is not None:
            return TranslationStatus.GAP
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

    def _reverse_beyond(self, target_offset: int) -> ReverseTranslation:
        if target_offset > self.target_end:
            ahead = target_offset - self.target_end
            return ReverseTranslation(self.source_end, TranslationStatus.AHEAD, ahead)
        status = TranslationStatus.AT_END if target_offset == self.target_end else TranslationStatus.GAP
        return ReverseTranslation(self.source_end, status)


def translate_commit(
    maps: Iterable[OffsetMap],
    topic_id: str | None,
    committed_offset: int,
    target_log_start: int | None = None,
) -> Translation:
    """The translation of a commit, given the maps of one flow and source partition, one per topic id.

    `topic_id` None: nobody knows which life of the topic the commit belongs to, so no map is its own.
    """
    by_topic_id = {offset_map.source.topic_id: offset_map for offset_map in maps}
    if not by_topic_id:
        return Translation(None, TranslationStatus.NO_MAP)
    if topic_id is None or topic_id not in by_topic_id:
        return Translation(None, TranslationStatus.OTHER_INCARNATION)
    return by_topic_id[topic_id].translate(committed_offset, target_log_start)


def expand(sync: OffsetSync) -> tuple[Segment, ...]:
    """The segments of one offset sync: its target range is contiguous, gaps take no place on the target."""
    _check_sync(sync)
    if sync.kind not in (SyncKind.COPIED, SyncKind.ADOPTED):
        return ()
    starts = (sync.source_start, *(gap.source_end for gap in sync.gaps))
    ends = (*(gap.source_start for gap in sync.gaps), sync.source_end)
    segments, target = [], sync.target_start
    for start, end in zip(starts, ends, strict=True):
        if start < end:
            segments.append(Segment(start, end, target))
            target += end - start
    return tuple(segments)


def unmapped(sync: OffsetSync) -> tuple[Unmapped, ...]:
    """The stretches of one offset sync without a copied record: its gaps, or all of it when it was lost."""
    _check_sync(sync)
    if sync.kind is SyncKind.LOST and sync.cause is not None:
        return (
            Unmapped(sync.source_start, sync.source_end, sync.target_start, UnmappedKind.LOST, sync.cause),
        )
    stretches, skipped = [], 0
    for gap in sync.gaps:
        target = sync.target_start + gap.source_start - sync.source_start - skipped
        stretches.append(Unmapped(gap.source_start, gap.source_end, target, UnmappedKind.GAP, gap.cause))
        skipped += gap.source_end - gap.source_start
    return tuple(stretches)


def _check_sync(sync: OffsetSync) -> None:
    _check_range("an offset sync", sync.source_start, sync.source_end)
    if sync.kind in (SyncKind.COPIED, SyncKind.ADOPTED):
        _check_copied(sync)
    if sync.kind is SyncKind.LOST and (
        sync.cause is None or sync.gaps or sync.target_end != sync.target_start
    ):
        raise InvalidValueError(
            f"a lost stretch needs a cause, no gaps and no target offsets, got [{sync.source_start}, "
            f"{sync.source_end}) with cause {sync.cause}, {len(sync.gaps)} gaps, "
            f"target [{sync.target_start}, {sync.target_end})"
        )


def _check_copied(sync: OffsetSync) -> None:
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


def _check_m1(offset_map: OffsetMap) -> None:
    stretches: list[Segment | Unmapped] = [*offset_map.segments, *offset_map.unmapped]
    if not stretches:
        raise InvalidValueError("M1: an offset map needs at least one segment, gap or lost stretch")
    _check_ascending(offset_map.segments)
    _check_ascending(offset_map.unmapped)
    stretches.sort(key=lambda stretch: stretch.source_start)
    for before, after in pairwise(stretches):
        if before.source_end != after.source_start:
            raise InvalidValueError(
                f"M1: offset syncs must tile the source, got {after.source_start} after {before.source_end}"
            )


def _check_ascending(stretches: Sequence[Segment | Unmapped]) -> None:
    for before, after in pairwise(stretches):
        if before.source_start >= after.source_start:
            raise InvalidValueError(
                f"M1: stretches must ascend, got {after.source_start} after {before.source_start}"
            )


def _check_m2(offset_map: OffsetMap) -> None:
    ends = [segment.target_end for segment in offset_map.segments]
    starts = [*(segment.target_start for segment in offset_map.segments[1:]), offset_map.target_end]
    for end, start in zip(ends, starts, strict=False):
        if start < end:
            raise InvalidValueError(f"M2: target ranges must rise, got {start} after {end}")


def _check_syncs_rise(syncs: Sequence[OffsetSync]) -> None:
    for before, after in pairwise(syncs):
        if after.target_start < before.target_end:
            raise InvalidValueError(
                f"M2: target ranges must rise, got {after.target_start} after {before.target_end}"
            )


def _check_m3(syncs: Sequence[OffsetSync]) -> None:
    for sync in syncs:
        if (sync.source, sync.target) != (syncs[0].source, syncs[0].target):
            raise InvalidValueError(
                f"M3: one source and target partition and topic id, got {sync.source} -> {sync.target} "
                f"beside {syncs[0].source} -> {syncs[0].target}"
            )
