"""Which share-partition start offsets are worth a row: what changed, and what is not there any more."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from ledger.domain.facts import Absence
from ledger.domain.groups import ShareOffset
from ledger.recording.changes.checkpoints import CheckpointKey


def share_offset_row(offset: ShareOffset) -> dict[str, object]:
    """A row of `share_offsets` without its stamp."""
    absence = None if offset.absence is None else offset.absence.value
    return {**asdict(offset), "absence": absence}


def recorded_share_offset(row: Mapping[str, Any]) -> ShareOffset:
    """What a row of `share_offsets` without its stamp says."""
    absence = None if row["absence"] is None else Absence(row["absence"])
    return ShareOffset(**{**row, "absence": absence})


def share_offset_key(offset: ShareOffset) -> CheckpointKey:
    return offset.group_id, offset.topic, offset.partition


def share_offsets_by_key(offsets: Iterable[ShareOffset]) -> dict[CheckpointKey, ShareOffset]:
    return {share_offset_key(offset): offset for offset in offsets}


def changed_share_offsets(
    last: Mapping[CheckpointKey, ShareOffset],
    read: Mapping[CheckpointKey, ShareOffset],
    *,
    absences: Mapping[CheckpointKey, Absence],
    read_at_ms: int,
) -> list[ShareOffset]:
    """Rows to append, by key. `absences` says why recorded offsets are not in `read`; it is recorded once."""
    changed = [row for key, row in read.items() if key not in last or not _same(last[key], row)]
    absent = [
        _absent(last[key], absence, read_at_ms)
        for key, absence in absences.items()
        if last[key].absence is not absence
    ]
    return sorted(changed + absent, key=share_offset_key)


def _same(last: ShareOffset, now: ShareOffset) -> bool:
    return replace(now, read_at_ms=last.read_at_ms) == last


def _absent(last: ShareOffset, absence: Absence, read_at_ms: int) -> ShareOffset:
    return replace(
        last, start_offset=None, leader_epoch=None, lag=None, read_at_ms=read_at_ms, absence=absence
    )
