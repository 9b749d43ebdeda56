"""What holds of a partition's offset syncs after supersession (PROTOCOL.md), and where to go on after a truncation.

Rows are of one flow and one source partition and topic id. All ranges are half-open.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ledger.domain.facts import Gap, OffsetSync, SyncKind

SEQUENCE_MODULUS = 2**31
_NUMBERED = (SyncKind.COPIED, SyncKind.UNPAIRED)


@dataclass(frozen=True, slots=True)
class RecordedSync:
    """An offset sync with the place at which it was recorded."""

    writer_epoch: int
    round: int
    sync: OffsetSync

    @property
    def place(self) -> tuple[int, int, bool, int, int]:
        """Later rows compare higher; within a round a superseded row is the last word."""
        is_last_word = self.sync.kind is SyncKind.SUPERSEDED
        return self.writer_epoch, self.round, is_last_word, self.sync.source_end, self.sync.target_end


@dataclass(frozen=True, slots=True)
class Restart:
    """Where a flow goes on with a partition: both ends, the next sequence, the last batch's leader epoch."""

    source_start: int
    target_end: int
    next_sequence: int
    leader_epoch: int | None


def effective(recorded: Iterable[RecordedSync]) -> list[OffsetSync]:
    """The rows that still hold, those that lie across a supersession cut there, in the order of recording."""
    holding: list[OffsetSync] = []
    for row in sorted(recorded, key=lambda row: row.place):
        if row.sync.kind is SyncKind.SUPERSEDED:
            holding = [cut(sync, row.sync.source_start) for sync in holding if _holds(sync, row.sync)]
        else:
            holding.append(row.sync)
    return holding


def _holds(sync: OffsetSync, superseded: OffsetSync) -> bool:
    if sync.source_start == sync.source_end:
        return sync.source_end <= superseded.source_start and sync.target_end <= superseded.target_end
    return sync.source_start < superseded.source_start


def cut(sync: OffsetSync, source_end: int) -> OffsetSync:
    """The part of an offset sync below `source_end`."""
    if sync.source_end <= source_end:
        return sync
    gaps = tuple(
        Gap(gap.source_start, min(gap.source_end, source_end), gap.cause)
        for gap in sync.gaps
        if gap.source_start < source_end
    )
    records = records_before(sync, source_end)
    return replace(
        sync, source_end=source_end, gaps=gaps, records=records, target_end=sync.target_start + records
    )


def records_before(sync: OffsetSync, source_offset: int) -> int:
    """Records that the sync maps from source offsets below `source_offset`."""
    if sync.kind not in (SyncKind.COPIED, SyncKind.ADOPTED):
        return 0
    end = min(max(source_offset, sync.source_start), sync.source_end)
    missing = sum(max(0, min(gap.source_end, end) - gap.source_start) for gap in sync.gaps)
    return end - sync.source_start - missing


def restart_after_target_truncation(recorded: Sequence[RecordedSync], target_end: int) -> Restart | None:
    """The first source offset whose record the target lost when its log ends at `target_end`.

    The sequence is that of the log: it counts records that a supersession took out of the map, too. None
    when nothing that was recorded reaches past that end.
    """
    before: OffsetSync | None = None
    for sync in effective(recorded):
        if sync.records and sync.target_end > target_end:
            kept = max(target_end - sync.target_start, 0)
            epoch_of = sync if kept else before
            return Restart(
                source_start=_source_of(sync, kept),
                target_end=target_end,
                next_sequence=_sequence_at(recorded, target_end),
                leader_epoch=None if epoch_of is None else epoch_of.source_leader_epoch,
            )
        before = sync
    return None


def _source_of(sync: OffsetSync, records: int) -> int:
    """The source offset of the record after the first `records` of a sync; where it stands, for an unpaired one."""
    if sync.kind is SyncKind.UNPAIRED:
        return sync.source_start
    offset = sync.source_start
    for gap in sync.gaps:
        if offset + records < gap.source_start:
            break
        records -= gap.source_start - offset
        offset = gap.source_end
    return offset + records


def _sequence_at(recorded: Sequence[RecordedSync], target_offset: int) -> int:
    """The sequence of the flow's record at a target offset, or of the next one; of two claims the later counts."""
    rows = [row.sync for row in sorted(recorded, key=lambda row: row.place) if row.sync.kind in _NUMBERED]
    for sync in reversed(rows):
        if sync.target_start <= target_offset < sync.target_end:
            return (sync.first_sequence + target_offset - sync.target_start) % SEQUENCE_MODULUS
    following = [sync for sync in rows if sync.target_start >= target_offset and sync.records]
    return min(following, key=lambda sync: sync.target_start).first_sequence if following else 0


@dataclass(frozen=True, slots=True)
class CommonEnd:
    """Up to where the source still holds what was copied, and the leader epoch of the last batch there."""

    source_end: int
    leader_epoch: int | None


def common_end(recorded: Iterable[RecordedSync], *, epoch: int | None, end: int) -> CommonEnd:
    """Where what was copied and what the source holds part, when it ends leader epoch `epoch` at `end`.

    The smaller of both ends of the last common epoch (KIP-101: how a follower truncates); `epoch` None: only
    `end` is known.
    """
    syncs = effective(recorded)
    later_epochs = [
        sync.source_start
        for sync in syncs
        if epoch is not None and sync.source_leader_epoch is not None and sync.source_leader_epoch > epoch
    ]
    source_end = min([end, *later_epochs])
    below = [sync for sync in syncs if sync.source_start < source_end]
    return CommonEnd(source_end, below[-1].source_leader_epoch if below else None)
