"""The stops of a partition whose logs do not hold what they should, in words that name the values."""

from collections.abc import Sequence

from ledger.mirror.task.assignments import Divergence, Stop, StopCause
from ledger.mirror.task.tail.foreign_records import ForeignRecords
from ledger.mirror.task.tail.target_tail import TailBatch, TargetTail
from ledger.wire.record_batch import BatchHeader


def source_took_back(position: int, epoch: int | None, divergence: Divergence) -> Stop:
    return Stop(
        StopCause.SOURCE_TRUNCATED,
        f"the source truncated records of leader epoch {epoch} before offset {position}: what it holds of epoch "
        f"{divergence.epoch} ends at {divergence.end}; nothing after that was copied",
    )


def unreadable(tail: TargetTail, error: Exception) -> Stop:
    return Stop(
        StopCause.TARGET_CORRUPT,
        f"the target's log cannot be read from offset {tail.position} on: {error}; nothing was written after it",
    )


def not_explained(found: TailBatch, *, expected: str) -> Stop:
    header = found.header
    return Stop(
        StopCause.TAIL_MISMATCH,
        f"target offset {header.base_offset} holds {found.written} records of this flow with sequence "
        f"{header.base_sequence}, but {expected}; nothing was written",
    )


def copied_again(start: int, position: int) -> str:
    """The notice where a flow continues that could have stopped; the target offset, and the source's."""
    return (
        f"from target offset {start} on the target holds records of this flow that were not recorded and cannot be "
        "paired with the source's: a cleaner has been at work since; the source is copied again from offset "
        f"{position}, behind them"
    )


def repeated(batches: Sequence[TailBatch]) -> Stop:
    """Late requests wrote these a second time."""
    first, count = batches[0].header, sum(found.written for found in batches)
    return Stop(
        StopCause.TAIL_MISMATCH,
        f"target offset {first.base_offset} holds records of this flow once more, {count} of them: they came late, "
        f"with sequence {first.base_sequence}, after the target had forgotten this flow's producer id; they are "
        "recorded as repeated, nothing was written after them",
    )


def foreign(found: ForeignRecords, *, own: int) -> Stop:
    return Stop(
        StopCause.FOREIGN_WRITE,
        f"{found.described(own=own)}; nothing was written after it",
        found.producer_id,
    )


def landed_behind(base_offset: int, *, expected: int, between: ForeignRecords | None, own: int) -> Stop:
    others = "what lies between holds no record" if between is None else between.described(own=own)
    return Stop(
        StopCause.FOREIGN_WRITE,
        f"a batch was expected at target offset {expected} and landed at {base_offset}: somebody else writes to this "
        f"exclusive target; {others}; nothing was written after it",
        None if between is None else between.producer_id,
    )


def landed_below(base_offset: int, *, expected: int) -> Stop:
    return Stop(
        StopCause.TARGET_OUT_OF_RANGE,
        f"a batch was expected at target offset {expected} or later and landed at {base_offset}: the target lost what "
        "was there; nothing more was written",
    )


def another_record(found: BatchHeader, *, offset: int, wanted: int) -> Stop:
    """Where the flow's last record lay, with the sequence wanted."""
    return Stop(
        StopCause.TARGET_OUT_OF_RANGE,
        f"target offset {offset} holds a record of producer id {found.producer_id}, sequence "
        f"{found.sequence_at(offset)}, where this flow's with sequence {wanted} was: the target lost what was there; "
        "nothing was written",
    )


def sequence_refused(times: int) -> Stop:
    """The target says 45 though nothing that was found there explains it."""
    return Stop(
        StopCause.SEQUENCE_REFUSED,
        f"the target refused the next sequence {times} times, and its log holds nothing of this flow that the ledger "
        "does not know: it remembers another last sequence; nothing more was written",
    )
