"""Logs that lost their end: where a partition continues, by what the ledger has of both sides."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ledger.facts.syncs import (
    SEQUENCE_MODULUS,
    SEQUENCED_KINDS,
    OffsetSync,
    Position,
    RecordedSync,
    SyncKind,
    holding,
)


def restart_after_target_truncation(
    holding_there: Iterable[OffsetSync], target_end: int, *, next_sequence: int
) -> Position | None:
    """The first source offset whose record the target lost when its log ends at `target_end`.

    `holding_there`: what holds of one incarnation of the source in that log, oldest first. None when nothing of
    it reaches past that end.
    """
    before: OffsetSync | None = None
    for sync in holding_there:
        if sync.records and sync.target_end > target_end:
            kept = max(target_end - sync.target_start, 0)
            epoch_of = sync if kept else before
            return Position(
                # A gap at its start may be of the same leader epoch as the sync, and is recorded again with it.
                source_offset=_source_of(sync, kept) if kept else sync.source_start,
                target_offset=target_end,
                next_sequence=next_sequence,
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


def sequence_at(
    recorded: Iterable[RecordedSync], target_topic_id: str, target_offset: int, *, producer_id: int
) -> int | None:
    """The sequence of the flow's record at a target offset, or of the next one, with one of its producer ids.

    It is that of the log: it counts what a supersession took out of the map, and what other incarnations of
    the source left there. None when nothing that was written with that id lies there or behind.
    """
    rows = [row for row in _written(recorded, target_topic_id) if row.counts_for(producer_id)]
    claim = _claim(rows, target_offset)
    if claim is not None:
        sync = claim.sync
        return (sync.first_sequence + target_offset - sync.target_start) % SEQUENCE_MODULUS
    following = [row.sync for row in rows if row.sync.target_start >= target_offset and row.sync.records]
    return min(following, key=lambda sync: sync.target_start).first_sequence if following else None


def is_as_recorded(
    recorded: Iterable[RecordedSync],
    target_topic_id: str,
    target_offset: int,
    *,
    producer_id: int,
    sequence: int,
) -> bool:
    """Whether what was recorded at a target offset is a record of that producer id and sequence."""
    claim = _claim(_written(recorded, target_topic_id), target_offset)
    if claim is None or claim.written_with not in (None, producer_id):
        return False
    if claim.sync.former_producer_id is not None:
        return True  # its sequence is not recorded
    wanted = claim.sync.first_sequence + target_offset - claim.sync.target_start
    return wanted % SEQUENCE_MODULUS == sequence


def _written(recorded: Iterable[RecordedSync], target_topic_id: str) -> list[RecordedSync]:
    """Rows of records that the flow wrote to a target, oldest first."""
    return [
        row
        for row in sorted(recorded, key=lambda row: row.place)
        if row.sync.kind in SEQUENCED_KINDS and row.sync.target.topic_id == target_topic_id
    ]


def _claim(oldest_first: Sequence[RecordedSync], target_offset: int) -> RecordedSync | None:
    """The row whose record lies at an offset; of two claims the later counts."""
    claims = (row for row in reversed(oldest_first) if _covers(row.sync, target_offset))
    return next(claims, None)


def _covers(sync: OffsetSync, target_offset: int) -> bool:
    return bool(sync.records) and sync.target_start <= target_offset < sync.target_end


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
    syncs = holding(recorded)
    later_epochs = [
        sync.source_start
        for sync in syncs
        if epoch is not None and sync.source_leader_epoch is not None and sync.source_leader_epoch > epoch
    ]
    source_end = min([end, *later_epochs])
    below = [sync for sync in syncs if sync.source_start < source_end]
    return CommonEnd(source_end, below[-1].source_leader_epoch if below else None)
