"""Which committed offsets are worth a row: what changed, what is not there any more, all on a full sweep."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

from ledger.domain.facts import Absence, Checkpoint

CheckpointKey = tuple[str, str, int]
"""Group, topic, partition: one commit of a cluster."""


class Explained(Protocol):
    """A fact of a group and a partition that may be absent, for a reason."""

    @property
    def absence(self) -> Absence | None: ...


def checkpoint_row(checkpoint: Checkpoint) -> dict[str, object]:
    """A row of `checkpoints` without its stamp."""
    absence = None if checkpoint.absence is None else checkpoint.absence.value
    return {**asdict(checkpoint), "absence": absence}


def recorded_checkpoint(row: Mapping[str, Any]) -> Checkpoint:
    """What a row of `checkpoints` without its stamp says."""
    absence = None if row["absence"] is None else Absence(row["absence"])
    return Checkpoint(**{**row, "absence": absence})


def checkpoint_key(checkpoint: Checkpoint) -> CheckpointKey:
    return checkpoint.group_id, checkpoint.topic, checkpoint.partition


def checkpoints_by_key(checkpoints: Sequence[Checkpoint]) -> dict[CheckpointKey, Checkpoint]:
    return {checkpoint_key(checkpoint): checkpoint for checkpoint in checkpoints}


def changed_checkpoints(
    last: Mapping[CheckpointKey, Checkpoint],
    read: Mapping[CheckpointKey, Checkpoint],
    *,
    absences: Mapping[CheckpointKey, Absence],
    read_at_ms: int,
) -> list[Checkpoint]:
    """Rows to append, by key. `absences` says why recorded commits are not in `read`; it is recorded once."""
    changed = [row for key, row in read.items() if key not in last or not _same(last[key], row)]
    absent = [
        _absent(last[key], absence, read_at_ms)
        for key, absence in absences.items()
        if last[key].absence is not absence
    ]
    return sorted(changed + absent, key=checkpoint_key)


def to_be_explained(
    last: Mapping[CheckpointKey, Explained],
    read: Mapping[CheckpointKey, Explained],
    *,
    was_read: Callable[[CheckpointKey], bool],
) -> list[CheckpointKey]:
    """Recorded offsets that `was_read` covers and `read` lacks, unless they are known to be `gone`."""
    return [
        key
        for key, row in last.items()
        if key not in read and was_read(key) and row.absence is not Absence.GONE
    ]


def not_read_again(
    last: Mapping[CheckpointKey, Checkpoint], read: Mapping[CheckpointKey, Checkpoint]
) -> dict[CheckpointKey, Checkpoint]:
    """A full sweep compares with nothing that was read: all of it is appended again."""
    return {key: row for key, row in last.items() if key not in read}


def _same(last: Checkpoint, now: Checkpoint) -> bool:
    """A group's state is not compared: it flaps with each rebalance and travels with the next row."""
    aligned = replace(now, group_state=last.group_state, read_at_ms=last.read_at_ms)
    return aligned == last


def _absent(last: Checkpoint, absence: Absence, read_at_ms: int) -> Checkpoint:
    return replace(
        last,
        group_state=None,
        committed_offset=None,
        leader_epoch=None,
        metadata=None,
        read_at_ms=read_at_ms,
        absence=absence,
        transaction_pending=None,
    )
