"""What a run of a flow has done so far."""

from dataclasses import dataclass, field

from ledger.mirror.assignments import PartitionResult


@dataclass(slots=True)
class RunSummary:
    """Counters of one run; `stopped` names the partitions that need a decision, with the reason."""

    rounds: int = 0
    records: int = 0
    bytes: int = 0
    raw_batches: int = 0
    record_path_batches: int = 0
    recovered_records: int = 0
    lost_offsets: int = 0
    stopped: list[str] = field(default_factory=list)

    def count(self, result: PartitionResult) -> None:
        for sync in result.syncs:
            self.records += sync.records
            self.bytes += sync.bytes
            self.raw_batches += sync.raw_batches
            self.record_path_batches += sync.record_path_batches
            self.recovered_records += sync.records if sync.recovered else 0
