"""Which committed offsets are worth a row: those that changed, those that are gone, all on a full sweep."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ledger.domain.facts import Checkpoint

CheckpointKey = tuple[str, str, int]
"""Group, topic, partition: one commit of a cluster."""


def checkpoint_key(checkpoint: Checkpoint) -> CheckpointKey:
    return checkpoint.group_id, checkpoint.topic, checkpoint.partition


def checkpoints_by_key(checkpoints: Sequence[Checkpoint]) -> dict[CheckpointKey, Checkpoint]:
    return {checkpoint_key(checkpoint): checkpoint for checkpoint in checkpoints}


def changed_checkpoints(
    last: Mapping[CheckpointKey, Checkpoint],
    read: Mapping[CheckpointKey, Checkpoint],
    *,
    was_read: Callable[[CheckpointKey], bool],
    read_at_ms: int,
) -> list[Checkpoint]:
    """Rows to append, by key. A recorded commit that `was_read` covers and `read` lacks is gone, once."""
    changed = [row for key, row in read.items() if key not in last or not _same(last[key], row)]
    gone = [
        _gone(row, read_at_ms)
        for key, row in last.items()
        if key not in read and was_read(key) and row.committed_offset is not None
    ]
    return sorted(changed + gone, key=checkpoint_key)


def _same(last: Checkpoint, now: Checkpoint) -> bool:
    """A group's state is not compared: it flaps with each rebalance and travels with the next row."""
    aligned = replace(now, group_state=last.group_state, read_at_ms=last.read_at_ms)
    return aligned == last


def _gone(last: Checkpoint, read_at_ms: int) -> Checkpoint:
    return replace(
        last,
        group_state=None,
        committed_offset=None,
        leader_epoch=None,
        metadata=None,
        read_at_ms=read_at_ms,
    )
