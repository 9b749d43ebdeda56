"""What of a cluster's records a mirror wrote, as the ledger knows."""

from collections.abc import Callable

from ledger.adapters.delta.ledger_state import DeltaLedgerState


def mirrors_at(state: DeltaLedgerState, cluster_id: str) -> Callable[[int], bool]:
    """Whether a producer id is a flow's there. What is known stays so; else the newest ledger is asked."""
    known: set[int] = set()

    def is_mirror(producer_id: int) -> bool:
        if producer_id >= 0 and producer_id not in known:
            known.update(state.identities().mirror_ids(cluster_id))
        return producer_id in known

    return is_mirror
