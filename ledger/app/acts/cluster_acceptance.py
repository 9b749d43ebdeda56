"""Which cluster an alias stands for: what `accept-cluster` records."""

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.app.wiring import cluster_admin, operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.domain.writer_roles import writer_of
from ledger.mirror.driver.take_over import require_free
from ledger.operations.cluster_acceptance import Accepted, consequences, judge_acceptance


def accept_cluster(
    config: MirrorConfig, cluster: str, cluster_id: str, *, rebuilt: bool, reason: str, ticket: str | None
) -> Accepted:
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
        return Accepted(None, f"it stands for {cluster_id} already")
    operation_id = operator_operations(config).record(acceptance, flow=None, reason=reason, ticket=ticket)
    return Accepted(operation_id, consequences(acceptance))


def _require_no_drivers(config: MirrorConfig, cluster: str, state: DeltaLedgerState) -> None:
    """A driver at work knows the former cluster's topics and ids."""
    for flow in config.flows.values():
        if cluster in (flow.source, flow.target):
            require_free(
                flow,
                state.last_claim(writer_of(flow.name)),
                LocalProcesses(),
                now_ms=SystemClock().now_ms(),
                way_out=f"Stop it first: mirror-ledger stop {flow.name}",
            )
