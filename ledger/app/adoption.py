"""Taking over what something else has mirrored."""

import time
from collections.abc import Sequence
from contextlib import closing

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.reading import open_ledger
from ledger.adapters.delta.state import DeltaLedgerState
from ledger.adapters.kafka.network.kafka_network import KafkaNetwork
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.app.wiring import cluster_admin, driver_operations, flow_topics
from ledger.config.mirror import MirrorConfig
from ledger.operations.adoption import adopting
from ledger.operations.adoption.adopting import AdoptionPorts
from ledger.operations.adoption.readers import require_at_rest
from ledger.operations.adoption.verdicts import Consent, PartitionAdoption
from ledger.ports.ledger import require_recorded


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
    network = closing(
        KafkaNetwork(config.cluster(flow.source), config.cluster(flow.target), request_timeout_s=30.0)
    )
    with (
        cluster_admin(config, flow.source) as source,
        cluster_admin(config, flow.target) as target,
        network as links,
    ):
        require_recorded(state, source, target)
        fact_log = DeltaFactLog(config.ledger.path, SystemClock())
        existing = flow_topics(config, flow, source, target, state, driver_operations()).existing()
        pairs = adopting.of_topics(existing, topics)
        ports = AdoptionPorts(source, target, state, links, SystemClock())
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
