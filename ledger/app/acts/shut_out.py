"""Shutting the mirror out of a promoted cluster, and letting it in again, as `promote` and `demote` do it."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.kafka.fencing.fenced_cluster import KafkaFencing
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.app.wiring import cluster_admin, operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.operations.directions import Pair
from ledger.operations.shut_out.letting_in import LetInPorts, LetInResult, let_mirror_in
from ledger.operations.shut_out.scope import ShutOutPorts, ShutOutScope
from ledger.operations.shut_out.shutting_out import ShutOutResult, shut_mirror_out
from ledger.ports.ledger import require_recorded


def shut_out(
    config: MirrorConfig,
    pair: Pair,
    *,
    with_markers: bool,
    limit_s: float,
    reason: str,
    ticket: str | None,
    operation_id: str | None,
    say: Callable[[str], None],
) -> ShutOutResult:
    """Shut the mirror out of what of the pair is promoted, and record what proves it."""
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    scope = shut_out_scope(config, pair, with_markers=with_markers, limit_s=limit_s)
    with shut_out_ports(config, pair.cluster, state, say) as ports:
        require_recorded(state, ports.cluster)
        return shut_mirror_out(scope, ports, reason=reason, ticket=ticket, operation_id=operation_id)


def shut_out_scope(config: MirrorConfig, pair: Pair, *, with_markers: bool, limit_s: float) -> ShutOutScope:
    """What of the configuration a shut-out is about."""
    flows = pair.flows_of(config.flows.values(), config.copies)
    others = [flow for flow in config.enabled_flows if flow.target == pair.cluster and flow not in flows]
    return ShutOutScope(
        pair=pair,
        flows=flows,
        others=others,
        copies=config.copies,
        principal=config.cluster(pair.cluster).mirror_principal,
        with_markers=with_markers,
        limit_s=limit_s,
    )


@contextmanager
def shut_out_ports(
    config: MirrorConfig, cluster: str, state: DeltaLedgerState, say: Callable[[str], None]
) -> Iterator[ShutOutPorts]:
    """The cluster with the credentials of an administrator, and with those of the mirror."""
    clock = SystemClock()
    with administered(config, cluster) as administrator, cluster_admin(config, cluster) as mirror:
        yield ShutOutPorts(
            cluster=administrator,
            mirror=mirror,
            state=state,
            operations=operator_operations(config),
            fact_log=DeltaFactLog(config.ledger.path, clock),
            processes=LocalProcesses(),
            clock=clock,
            sleep=time.sleep,
            progress=say,
        )


def let_in(
    config: MirrorConfig,
    pair: Pair,
    state: DeltaLedgerState,
    *,
    reason: str,
    ticket: str | None,
    operation_id: str | None = None,
) -> LetInResult:
    """Remove the rules that shut the mirror out of the pair's topics."""
    with administered(config, pair.cluster) as administrator:
        require_recorded(state, administrator)
        ports = LetInPorts(administrator, state, operator_operations(config), SystemClock(), time.sleep)
        return let_mirror_in(pair, ports, reason=reason, ticket=ticket, operation_id=operation_id)


def administered(config: MirrorConfig, cluster: str) -> closing[KafkaFencing]:
    """A connection with the credentials that change rules."""
    return closing(KafkaFencing(cluster, config.cluster(cluster).for_administration, SystemClock()))
