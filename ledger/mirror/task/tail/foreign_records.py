"""Records at a target partition that its flow did not write: what their batches tell of who did."""

from dataclasses import dataclass

from ledger.domain.words.time_words import instant
from ledger.mirror.task.mirror_producers import NO_PRODUCER_ID
from ledger.wire.record_batch import BatchHeader

_NO_TIME = -1


@dataclass(frozen=True, slots=True)
class ForeignRecords:
    """The first batch of others, and how many of their records were read from there up to `end`."""

    first: BatchHeader
    records: int
    end: int

    @classmethod
    def beginning(cls, found: BatchHeader) -> "ForeignRecords":
        return cls(found, found.count, found.end_offset)

    def followed_by(self, found: BatchHeader) -> "ForeignRecords":
        return ForeignRecords(self.first, self.records + found.count, found.end_offset)

    @property
    def producer_id(self) -> int | None:
        """None: their producer is not idempotent."""
        return None if self.first.producer_id == NO_PRODUCER_ID else self.first.producer_id

    def described(self, *, own: int) -> str:
        """In words; `own`: the flow's producer id."""
        first = self.first
        if self.producer_id is None:
            writer = f"without a producer id (its producer is not idempotent), not by this flow's {own}"
        else:
            writer = f"by producer id {first.producer_id}, not by this flow's {own}"
        batch = f"a batch of {_records(first.count)}, {_kind(first)}, {_time(first)}"
        more = (
            f"; {_records(self.records)} of others up to offset {self.end}"
            if self.end > first.end_offset
            else ""
        )
        return f"target offset {first.base_offset} was written {writer}: {batch}{more}"


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _kind(first: BatchHeader) -> str:
    return "of a transaction" if first.is_transactional else "not transactional"


def _time(first: BatchHeader) -> str:
    if first.max_timestamp == _NO_TIME:
        return "without a time"
    clock = "the target's" if first.has_log_append_time else "its producer's"
    return f"of {instant(first.max_timestamp)} by {clock} clock"
