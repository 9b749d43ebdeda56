"""What happened to a partition of a flow, as it is recorded."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ledger.domain.operations.content import OperationContent, Row
from ledger.domain.operations.kinds import OperationKind


@dataclass(frozen=True, slots=True)
class RecordedStop:
    """Why a partition stands still, as the ledger has it."""

    cause: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStopped(OperationContent):
    """A partition of the source stands still; `cause` may be one that only a later program knows."""

    kind: ClassVar = OperationKind.PARTITION_STOPPED
    topic: str
    topic_id: str
    partition: int
    cause: str
    message: str
    next: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        """Source topic id and partition."""
        return self.topic_id, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResumed(OperationContent):
    """A partition of the source that had stopped makes progress again."""

    kind: ClassVar = OperationKind.PARTITION_RESUMED
    topic: str
    topic_id: str
    partition: int

    @property
    def place(self) -> tuple[str, int]:
        """Source topic id and partition."""
        return self.topic_id, self.partition


STOP_KINDS = (PartitionResumed.kind, PartitionStopped.kind)


def stopped_partitions(rows: Sequence[Row]) -> dict[tuple[str, int], RecordedStop]:
    """Partitions that stand still by topic id and number, from rows of `STOP_KINDS`."""
    return {place: RecordedStop(stop.cause, stop.message) for place, stop in last_stops(rows).items()}


def last_stops(rows: Sequence[Row]) -> dict[tuple[str, int], PartitionStopped]:
    """The same with all that the last row of each says; of a round a stop comes last."""
    stopped: dict[tuple[str, int], PartitionStopped] = {}
    for row in sorted(
        rows, key=lambda row: (row["writer_epoch"], row["round"], STOP_KINDS.index(row["kind"]))
    ):
        if row["kind"] == PartitionStopped.kind:
            stop = PartitionStopped.of_row(row)
            stopped[stop.place] = stop
        else:
            stopped.pop(PartitionResumed.of_row(row).place, None)
    return stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCopiedAgain(OperationContent):
    """A partition of the source is copied again from what may have been copied already; its policy is to."""

    kind: ClassVar = OperationKind.TAIL_COPIED_AGAIN
    topic: str
    topic_id: str
    partition: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysResynced(OperationContent):
    """Keys of a partition were compared: with any record at the source, alive at the target, tombstones written."""

    kind: ClassVar = OperationKind.KEYS_RESYNCED
    topic: str
    partition: int
    source_keys: int
    target_keys: int
    tombstones: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(OperationContent):
    """A target partition was read behind the flow's recorded end, while its source did not answer.

    `source_start`, `target_start`, `first_sequence`: where the flow stood, with the sequence of `producer_id` (None:
    it has had one only). `target_end`: up to where the target was read. `records`: the flow's own that were found;
    `others`: records of other writers, which are nobody's claim, and `others_start`: where the first of them lies.
    """

    kind: ClassVar = OperationKind.SETTLED
    topic: str
    topic_id: str
    partition: int
    target_topic: str
    target_topic_id: str
    source_start: int
    target_start: int
    target_end: int
    first_sequence: int
    producer_id: int | None
    records: int
    others: int
    others_start: int | None


SettledByEpoch = Mapping[int, Settled]
"""Of one source partition, by the writer epoch that was claimed to settle it."""


def settlements(rows: Iterable[Row]) -> dict[tuple[str, int], SettledByEpoch]:
    """By source topic id and partition, from rows of `settled`; those that found nothing are left out."""
    found: dict[tuple[str, int], dict[int, Settled]] = {}
    for row in rows:
        settled = Settled.of_row(row)
        if settled.records:
            found.setdefault((settled.topic_id, settled.partition), {})[row["writer_epoch"]] = settled
    return dict(found)
