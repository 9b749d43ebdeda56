"""The table `writers` of a memory ledger, as copy tasks look into it."""

from ledger.store.producers import CachedMirrorProducers
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger


def memory_mirror_producers(ledger: MemoryLedger, cluster_id: str) -> CachedMirrorProducers:
    """Implements `MirrorProducers` for one Kafka cluster id."""

    def recorded() -> frozenset[int]:
        return MemoryLedgerState(ledger).identities().mirror_ids(cluster_id)

    return CachedMirrorProducers(recorded)
