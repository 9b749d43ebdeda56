"""What a run of a flow has done so far, and how it ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ledger.domain.facts import OffsetSync, SyncKind
from ledger.domain.operations.requests import OperatorRequest
from ledger.mirror.partitions.flow_progress import Unreached
from ledger.mirror.partitions.stopped_entries import StoppedPartition
from ledger.mirror.task.assignments import PartitionResult


class RunEnd(StrEnum):
    """How a run ended. `CAUGHT_UP` and `NOT_CAUGHT_UP` are of runs until caught up that nobody ended."""

    CAUGHT_UP = "caught_up"  # all that the source had at the start was copied
    NOT_CAUGHT_UP = "not_caught_up"  # what is left is paused, stopped, or blocked
    ASKED_TO_STOP = "asked_to_stop"  # by an operator, through the ledger
    SIGNALLED = "signalled"


@dataclass(slots=True)
class RunSummary:
    """Counters of one run, and how things stand at its end.

    `end` None: it still runs. `asked_by`: who asked to stop. `stopped`: partitions that need a decision. `blocked`: by
    source topic why nothing of it is copied. `paused`: the requests whose pauses hold partitions of the flow.
    """

    rounds: int = 0
    records: int = 0
    bytes: int = 0
    raw_batches: int = 0
    record_path_batches: int = 0
    recovered_records: int = 0
    lost_offsets: int = 0
    end: RunEnd | None = None
    asked_by: str | None = None
    stopped: list[StoppedPartition] = field(default_factory=list)
    blocked: Mapping[str, str] = field(default_factory=dict)
    paused: list[OperatorRequest] = field(default_factory=list)
    unreached: list[Unreached] = field(default_factory=list)

    @property
    def is_unfinished(self) -> bool:
        """Whether something needs a decision, or what the run was to copy is not all there."""
        is_short = self.end is RunEnd.NOT_CAUGHT_UP or bool(self.unreached)
        return is_short or bool(self.stopped or self.blocked)

    def count(self, result: PartitionResult) -> None:
        for sync in result.syncs:
            self.records += sync.records
            self.bytes += sync.bytes
            self.raw_batches += sync.raw_batches
            self.record_path_batches += sync.record_path_batches
            self.recovered_records += sync.records if sync.recovered else 0

    def count_lost(self, facts: Iterable[OffsetSync]) -> None:
        self.lost_offsets += sum(
            fact.source_end - fact.source_start for fact in facts if fact.kind is SyncKind.LOST
        )
