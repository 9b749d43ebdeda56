"""Keys of a target that its source has no record of."""

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.app.wiring import both_clusters, driver_operations, flow_topics, require_stopped
from ledger.config.mirror import MirrorConfig
from ledger.operations.key_resync import resyncing
from ledger.operations.key_resync.resyncing import PartitionKeys, ResyncPorts


def resync_keys(
    config: MirrorConfig,
    flow_name: str,
    *,
    topic: str,
    partition: int | None,
    dry_run: bool = False,
) -> list[PartitionKeys]:
    """Delete at a flow's target what its source has no record of; in a dry run nothing is written."""
    flow = config.enabled_flow(flow_name)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    resyncing.require_exclusive(flow)
    require_stopped(flow, state)
    with both_clusters(config, flow, state) as (source, target, network):
        fact_log = DeltaFactLog(config.ledger.path, SystemClock())
        operations = driver_operations()
        existing = flow_topics(config, flow, source, target, state, operations).existing()
        pairs = resyncing.chosen(existing, topic, partition)
        resyncing.require_compacted(source, topic)
        ports = ResyncPorts(source, target, state, operations, network, SystemClock())
        if dry_run:
            return resyncing.preview(flow, pairs, ports)
        return resyncing.resync(
            flow,
            pairs,
            ports,
            fact_log=fact_log,
            host=str(LocalProcesses().own()),
        )
