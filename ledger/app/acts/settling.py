"""What a flow wrote to its target and nobody recorded, while its driver and its source are dead."""

import time
from collections.abc import Callable
from contextlib import closing

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.kafka.network.kafka_network import KafkaNetwork
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.app.wiring import cluster_admin, driver_operations, require_stopped
from ledger.config.mirror import MirrorConfig
from ledger.domain.writer_roles import writer_of
from ledger.errors import ClusterUnavailableError
from ledger.operations.settling.settling import SettledFlow, SettlePorts, settle

_REQUEST_TIMEOUT_S = 30.0


def settle_flow(
    config: MirrorConfig,
    flow_name: str,
    *,
    reason: str,
    ticket: str | None,
    progress: Callable[[str], None],
    operation_id: str | None = None,
    is_promoted: bool = False,
) -> SettledFlow:
    """Record what the target holds of the flow behind its record.

    `is_promoted`: no driver of the flow will find that itself, also where the source answers. Raises what `settle`
    does, and `PreconditionError` while a driver of the flow may be at work.
    """
    flow = config.enabled_flow(flow_name)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    require_stopped(flow, state)
    last = state.last_claim(writer_of(flow.name))
    clusters = config.cluster(flow.source), config.cluster(flow.target)
    with (
        cluster_admin(config, flow.target) as target,
        closing(KafkaNetwork(*clusters, request_timeout_s=_REQUEST_TIMEOUT_S)) as network,
    ):
        ports = SettlePorts(
            target=target,
            state=state,
            fact_log=DeltaFactLog(config.ledger.path, SystemClock()),
            operations=driver_operations(),
            network=network,
            clock=SystemClock(),
            sleep=time.sleep,
            source_answers=lambda: not is_promoted and _answers(config, flow.source),
        )
        return settle(
            flow,
            ports,
            host=str(LocalProcesses().own()),
            reason=reason,
            ticket=ticket,
            operation_id=operation_id,
            after=None if last is None else last.epoch,
            progress=progress,
        )


def _answers(config: MirrorConfig, cluster: str) -> bool:
    try:
        with cluster_admin(config, cluster) as admin:
            admin.cluster_id()
    except ClusterUnavailableError:
        return False
    return True
