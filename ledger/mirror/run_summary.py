"""What a run of a flow has done so far."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ledger.domain.facts import OffsetSync, SyncKind
from ledger.domain.requests import Pauses
from ledger.mirror.assignments import PartitionResult


@dataclass(slots=True)
class RunSummary:
    """Counters of one run; `stopped` names the partitions that need a decision, with the reason, at its end."""

    rounds: int = 0
    records: int = 0
    bytes: int = 0
    raw_batches: int = 0
    record_path_batches: int = 0
    recovered_records: int = 0
    lost_offsets: int = 0
    stopped: list[str] = field(default_factory=list)
    pauses: Pauses = field(default_factory=Pauses)

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
