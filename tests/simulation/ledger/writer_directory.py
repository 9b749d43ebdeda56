"""The table `writers` of a memory ledger, as copy tasks look into it."""

from ledger.mirror.task.writer_directory import CachedWriterDirectory
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger


def memory_writer_directory(ledger: MemoryLedger, cluster_id: str) -> CachedWriterDirectory:
    """Implements `ports.WriterDirectory` for one Kafka cluster id."""

    def recorded() -> frozenset[int]:
        return MemoryLedgerState(ledger).identities().mirror_ids(cluster_id)

    return CachedWriterDirectory(recorded)
