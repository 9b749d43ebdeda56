"""What happened to a partition of a flow, as it is recorded."""

from dataclasses import dataclass
from typing import ClassVar

from ledger.domain.operations.content import OperationContent
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysResynced(OperationContent):
    """Keys of a partition were compared: with any record at the source, alive at the target, tombstones written."""

    kind: ClassVar = OperationKind.KEYS_RESYNCED
    topic: str
    partition: int
    source_keys: int
    target_keys: int
    tombstones: int
