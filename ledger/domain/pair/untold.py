"""What one flow found of a log that another flow does not know yet: that it lost its end.

A truncation is recorded by each flow when it reads the log (`source_truncated`, `target_truncated`, leader epochs).
Until then its rows speak of records that are not there any more, and at their offsets lie others. A group that is
placed by such rows passes these unread. So what any flow recorded of a log is put at the end of the rows of those that
did not, as the `superseded` row that they will write.

Which rows are older than a truncation is known by clocks, which are taken to agree within `CLOCK_MARGIN_MS`, and a row
in doubt is taken for older: that repeats, and never skips. Two things prove a row to be younger whatever clocks say:
at its source a leader epoch that begins at or behind the truncation, and at its target a gap `mirror_write` of a flow
that has read that log again since.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ledger.domain.facts import GapCause, OffsetSync, SyncCause, SyncKind, TopicPartition
from ledger.domain.offsets.offset_ranges import OffsetRange, Share, joined, share_of
from ledger.domain.offsets.supersession import effective, numbered_effective, restart_after_target_truncation
from ledger.domain.offsets.translation import CLOCK_MARGIN_MS, SeenEnd, Truncation, truncations_of


@dataclass(frozen=True, slots=True)
class TimedSync:
    """An offset sync and when it was recorded."""

    sync: OffsetSync
    recorded_at_ms: int


FlowRows = Sequence[TimedSync]
"""What a flow recorded of one source partition and topic id, oldest first (`recording_order`)."""


@dataclass(frozen=True, slots=True)
class Witness:
    """What a flow tells of the log that it reads: where that lost its end, and what mirrors wrote by rows that hold."""

    told: tuple[Truncation, ...]
    mirror_writes: tuple[OffsetRange, ...]


_MAPPED = (SyncKind.COPIED, SyncKind.ADOPTED)
_WRITTEN = (*_MAPPED, SyncKind.UNPAIRED)


def is_same(one: TopicPartition, other: TopicPartition) -> bool:
    """Whether two name the same partition of the same incarnation of a topic."""
    return (one.topic_id, one.partition) == (other.topic_id, other.partition)


def told_of_source(rows: FlowRows, seen: Iterable[SeenEnd] = ()) -> tuple[Truncation, ...]:
    """Where a flow found that its source had lost its end; `seen`: how far recorders saw it reach by leader epoch."""
    return truncations_of(((row.sync, row.recorded_at_ms) for row in rows), seen)


def told_of_target(rows: FlowRows, held: TopicPartition) -> tuple[Truncation, ...]:
    """Where a flow found that its target had lost its end, in target offsets."""
    return tuple(
        Truncation(row.sync.target_start, row.recorded_at_ms)
        for row in rows
        if row.sync.cause is SyncCause.TARGET_TRUNCATED and is_same(row.sync.target, held)
    )


def untold(heard: Iterable[Truncation], told: Sequence[Truncation]) -> tuple[Truncation, ...]:
    """Those of others' truncations that a flow has not recorded itself, at the same offset and about the same time."""
    return tuple(cut for cut in heard if not any(_is_same_cut(own, cut) for own in told))


def _is_same_cut(one: Truncation, other: Truncation) -> bool:
    apart_ms = abs(one.recorded_at_ms - other.recorded_at_ms)
    return one.source_start == other.source_start and apart_ms <= CLOCK_MARGIN_MS


def as_if_told(
    rows: FlowRows,
    *,
    of_source: Iterable[Truncation],
    of_target: Iterable[Truncation],
    at_target: Sequence[Witness] = (),
) -> FlowRows:
    """The rows of a flow with what other flows found of its source and of its target's present incarnation.

    `at_target`: the flows that read its target. Each finding is compared with the rows as they are, and of all the
    lowest offset counts.
    """
    if not rows:
        return rows
    source_cut = _source_cut(rows, tuple(of_source))
    target_cut = _target_cut(rows, tuple(of_target), at_target)
    if source_cut is not None and target_cut is not None:
        is_lower = target_cut.sync.source_start < source_cut.sync.source_start
        return [*rows, target_cut if is_lower else source_cut]
    return [*rows, *(cut for cut in (source_cut, target_cut) if cut is not None)]


def _source_cut(rows: FlowRows, cuts: Sequence[Truncation]) -> TimedSync | None:
    holding = _holding(rows)
    met = [cut for cut in cuts if _has_older_beyond(holding, cut)]
    if not met:
        return None
    lowest = min(met, key=lambda cut: cut.source_start)
    last = effective([row.sync for row in rows])[-1]
    before = [row.sync for row in holding if row.sync.source_end <= lowest.source_start]
    return _superseded(
        last,
        cause=SyncCause.SOURCE_TRUNCATED,
        source=(lowest.source_start, last.source_end),
        target_start=last.target_end,
        leader_epoch=before[-1].source_leader_epoch if before else None,
        at_ms=lowest.recorded_at_ms,
    )


def _has_older_beyond(holding: FlowRows, cut: Truncation) -> bool:
    below = [row.sync.source_leader_epoch for row in holding if row.sync.source_start < cut.source_start]
    epoch = max((one for one in below if one is not None), default=None)
    return any(row.sync.source_end > cut.source_start and _is_older(row, cut, epoch) for row in holding)


def _is_older(row: TimedSync, cut: Truncation, epoch_below: int | None) -> bool:
    """Whether a row beyond a truncation may tell of what was there before."""
    epoch = row.sync.source_leader_epoch
    is_of_later_epoch = epoch is not None and epoch_below is not None and epoch > epoch_below
    return cut.may_be_after(row.recorded_at_ms) and not is_of_later_epoch


def _target_cut(rows: FlowRows, cuts: Sequence[Truncation], witnesses: Sequence[Witness]) -> TimedSync | None:
    target = rows[-1].sync.target
    holding = [
        (rows[index], sync)
        for index, sync in numbered_effective([row.sync for row in rows])
        if is_same(sync.target, target)
    ]
    doubts = [(in_doubt_from(row, cuts, witnesses), sync) for row, sync in holding if sync.kind in _WRITTEN]
    in_doubt = [start for start, sync in doubts if start is not None and start < sync.target_end]
    if not in_doubt:
        return None
    end = min(in_doubt)
    at = restart_after_target_truncation((sync for _, sync in holding), end, next_sequence=0)
    if at is None:
        return None
    last = effective([row.sync for row in rows])[-1]
    return _superseded(
        last,
        cause=SyncCause.TARGET_TRUNCATED,
        source=(at.source_offset, last.source_end),
        target_start=end,
        leader_epoch=at.leader_epoch,
        at_ms=max(cut.recorded_at_ms for cut in cuts),
    )


def _is_seen(sync: OffsetSync, cut: Truncation, witnesses: Iterable[Witness]) -> bool:
    """Whether a flow that has read the target again since found records of mirrors where a row says that they lie."""
    start = max(sync.target_start, cut.source_start)
    return any(
        share_of(witness.mirror_writes, start, sync.target_end) is Share.ALL
        for witness in witnesses
        if any(_is_known_after(cut, own) for own in witness.told)
    )


def _is_known_after(cut: Truncation, own: Truncation) -> bool:
    """Whether who recorded a truncation read the log again behind another one, too."""
    is_later = own.recorded_at_ms > cut.recorded_at_ms + CLOCK_MARGIN_MS
    return own == cut or (is_later and own.source_start <= cut.source_start)


def _holding(rows: FlowRows) -> list[TimedSync]:
    return [
        TimedSync(sync, rows[index].recorded_at_ms)
        for index, sync in numbered_effective([row.sync for row in rows])
    ]


def _superseded(
    last: OffsetSync,
    *,
    cause: SyncCause,
    source: OffsetRange,
    target_start: int,
    leader_epoch: int | None,
    at_ms: int,
) -> TimedSync:
    """The row that the flow will write, as the last one of its rows."""
    row = replace(
        last,
        kind=SyncKind.SUPERSEDED,
        cause=cause,
        source_start=source[0],
        source_end=max(source),
        target_start=target_start,
        target_end=target_start,
        source_leader_epoch=leader_epoch,
        gaps=(),
        records=0,
        bytes=0,
        checksum=None,
    )
    return TimedSync(row, at_ms)


def in_doubt_from(row: TimedSync, cuts: Iterable[Truncation], witnesses: Sequence[Witness]) -> int | None:
    """From which target offset on a row may tell of what the target has lost, by what others found; None: from none."""
    starts = [
        cut.source_start
        for cut in cuts
        if row.sync.target_end > cut.source_start
        and cut.may_be_after(row.recorded_at_ms)
        and not _is_seen(row.sync, cut, witnesses)
    ]
    return max(min(starts), row.sync.target_start) if starts else None


def witness_of(rows: FlowRows) -> Witness:
    """What a flow tells of the log that it reads."""
    gaps = (gap for sync in effective([row.sync for row in rows]) for gap in sync.gaps)
    written = sorted((gap.source_start, gap.source_end) for gap in gaps if gap.cause is GapCause.MIRROR_WRITE)
    return Witness(told_of_source(rows), tuple(joined(written)))
