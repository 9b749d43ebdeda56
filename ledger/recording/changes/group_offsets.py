"""Which offsets of groups are worth a row: what changed, what is not there any more, all commits on a full sweep.

They are committed offsets, rows of `checkpoints`, and share-partition start offsets, rows of `share_offsets`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeAlias, TypeVar

from ledger.domain.facts import Absence, Checkpoint
from ledger.domain.groups import ShareOffset

AnyOffset: TypeAlias = Checkpoint | ShareOffset
Offset = TypeVar("Offset", Checkpoint, ShareOffset)
OffsetKey = tuple[str, str, int]
"""Group, topic, partition: one offset of a cluster."""


def offset_row(offset: AnyOffset) -> dict[str, object]:
    """A row of its table without its stamp."""
    absence = None if offset.absence is None else offset.absence.value
    return {**asdict(offset), "absence": absence}


def recorded_offset(kind: type[Offset], row: Mapping[str, Any]) -> Offset:
    """What a row without its stamp says."""
    absence = None if row["absence"] is None else Absence(row["absence"])
    return kind(**{**row, "absence": absence})


def offset_key(offset: AnyOffset) -> OffsetKey:
    return offset.group_id, offset.topic, offset.partition


def offsets_by_key(offsets: Iterable[Offset]) -> dict[OffsetKey, Offset]:
    return {offset_key(offset): offset for offset in offsets}


def changed_offsets(
    last: Mapping[OffsetKey, Offset],
    read: Mapping[OffsetKey, Offset],
    *,
    absences: Mapping[OffsetKey, Absence],
    read_at_ms: int,
) -> list[Offset]:
    """Rows to append, by key. `absences` says why recorded offsets are not in `read`; it is recorded once."""
    changed = [row for key, row in read.items() if key not in last or not _same(last[key], row)]
    absent = [
        _absent(last[key], absence, read_at_ms)
        for key, absence in absences.items()
        if last[key].absence is not absence
    ]
    return sorted(changed + absent, key=offset_key)


def to_be_explained(
    last: Mapping[OffsetKey, AnyOffset],
    read: Mapping[OffsetKey, AnyOffset],
    *,
    was_read: Callable[[OffsetKey], bool],
) -> list[OffsetKey]:
    """Recorded offsets that `was_read` covers and `read` lacks, unless they are known to be `gone`."""
    return [
        key
        for key, row in last.items()
        if key not in read and was_read(key) and row.absence is not Absence.GONE
    ]


def not_read_again(
    last: Mapping[OffsetKey, Offset], read: Mapping[OffsetKey, Offset]
) -> dict[OffsetKey, Offset]:
    """A full sweep compares with nothing that was read: all of it is appended again."""
    return {key: row for key, row in last.items() if key not in read}


def _same(last: Offset, now: Offset) -> bool:
    """A group's state is not compared: it flaps with each rebalance and travels with the next row."""
    aligned = replace(now, read_at_ms=last.read_at_ms)
    if isinstance(aligned, Checkpoint) and isinstance(last, Checkpoint):
        aligned = replace(aligned, group_state=last.group_state)
    return aligned == last


def _absent(last: Offset, absence: Absence, read_at_ms: int) -> Offset:
    absent = replace(last, leader_epoch=None, read_at_ms=read_at_ms, absence=absence)
    if isinstance(absent, Checkpoint):
        return replace(
            absent, group_state=None, committed_offset=None, metadata=None, transaction_pending=None
        )
    return replace(absent, start_offset=None, lag=None)
