"""The table `writers` of a memory ledger, as copy tasks look into it."""

from ledger.adapters.memory.tables import MemoryLedger
from ledger.mirror.writer_directory import CachedWriterDirectory


def memory_writer_directory(ledger: MemoryLedger, cluster_id: str) -> CachedWriterDirectory:
    """Implements `ports.WriterDirectory` for one Kafka cluster id."""

    def recorded() -> frozenset[int]:
        return frozenset(
            row["producer_id"]
            for row in ledger.rows("writers")
            if row["target_cluster_id"] == cluster_id and row["producer_id"] is not None
        )

    return CachedWriterDirectory(recorded)
