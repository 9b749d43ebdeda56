"""Which cluster an alias stands for: what `accept-cluster` records."""

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.app.wiring import cluster_admin, operator_operations, require_stopped
from ledger.config.mirror import MirrorConfig
from ledger.operations.cluster_acceptance import consequences, judge_acceptance
from ledger.operations.declared import Declared


def accept_cluster(
    config: MirrorConfig, cluster: str, cluster_id: str, *, rebuilt: bool, reason: str, ticket: str | None
) -> Declared:
    """Record that an alias stands for the cluster that answers behind it now.

    Raises, and records nothing, when that is another one than `cluster_id`, or while a driver of a flow that
    touches the alias may be at work.
    """
    config.cluster(cluster)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    with cluster_admin(config, cluster) as admin:
        live_id = admin.cluster_id()
    _require_no_drivers(config, cluster, state)
    acceptance = judge_acceptance(state.identities(), cluster, cluster_id, live_id=live_id, rebuilt=rebuilt)
    if acceptance is None:
        return Declared(None, f"it stands for {cluster_id} already")
    operation_id = operator_operations(config).record(acceptance, flow=None, reason=reason, ticket=ticket)
    return Declared(operation_id, consequences(acceptance))


def _require_no_drivers(config: MirrorConfig, cluster: str, state: DeltaLedgerState) -> None:
    """A driver at work knows the former cluster's topics and ids."""
    for flow in config.flows.values():
        if cluster in (flow.source, flow.target):
            require_stopped(flow, state)
