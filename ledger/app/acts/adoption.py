"""Taking over what something else has mirrored."""

import time
from collections.abc import Sequence

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.app.wiring import both_clusters, driver_operations, flow_topics
from ledger.config.mirror import MirrorConfig
from ledger.operations.adoption import adopting
from ledger.operations.adoption.adopting import AdoptionPorts
from ledger.operations.adoption.readers import require_at_rest
from ledger.operations.adoption.verdicts import Consent, PartitionAdoption


def adopt_flow(
    config: MirrorConfig,
    flow_name: str,
    *,
    topics: Sequence[str],
    consent: Consent,
    dry_run: bool = False,
) -> list[PartitionAdoption]:
    """Take over what something else has mirrored for a flow; in a dry run nothing is claimed or recorded."""
    flow = config.flow(flow_name)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    with both_clusters(config, flow, state) as (source, target, network):
        fact_log = DeltaFactLog(config.ledger.path, SystemClock())
        existing = flow_topics(config, flow, source, target, state, driver_operations()).existing()
        pairs = adopting.of_topics(existing, topics)
        ports = AdoptionPorts(source, target, state, network, SystemClock())
        if dry_run:
            return adopting.preview(flow, pairs, ports, consent, wait=time.sleep)
        return adopting.adopt(
            flow,
            pairs,
            ports,
            consent,
            fact_log=fact_log,
            host=str(LocalProcesses().own()),
            wait=time.sleep,
            require_readers_at_rest=lambda: require_at_rest(
                flow,
                config.readers_of(flow.target, [pair.target.topic for pair in pairs]),
                state.last_claim,
                LocalProcesses(),
                SystemClock(),
            ),
        )
