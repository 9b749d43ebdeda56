"""Where a flow continues when a target's log begins behind its position: retention deleted what lay between."""

from ledger.mirror.task.assignments import Assignment
from ledger.wire.record_batch import BatchHeader


def end_of_expired(assignment: Assignment, first: BatchHeader | None) -> int:
    """Where the target's log begins, or at the flow's own first batch there if that reaches below."""
    begins = assignment.target_log_start
    return begins if first is None else min(begins, first.base_offset)


def sequence_behind_expired(assignment: Assignment, first: BatchHeader | None, expected: int) -> int:
    """The sequence there: that of the flow's own first batch, else the one that follows what the target remembers.

    Where both are unknown it is the expected one, as if nothing of the flow was deleted: the target refuses the next
    batch if anything was.
    """
    if first is not None and first.producer_id == assignment.producer_id:
        return first.base_sequence
    return expected if assignment.remembered_sequence is None else assignment.remembered_sequence
