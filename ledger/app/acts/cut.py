"""Taking a cut of what is copied from one cluster to another."""

from collections.abc import Collection

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.system import SystemClock
from ledger.app.wiring import cluster_admin
from ledger.config.mirror import MirrorConfig
from ledger.domain.offsets.cut_offsets import Cut
from ledger.operations.cut import CutFlow, CutPorts, take_cut
from ledger.operations.directions import Pair


def cut_of_pair(config: MirrorConfig, pair: Pair, *, operation_id: str) -> Cut:
    """Read both sides of every partition that flows of the pair copy; raises as `take_cut`."""
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    config.cluster(pair.former)
    config.cluster(pair.cluster)
    with cluster_admin(config, pair.former) as source, cluster_admin(config, pair.cluster) as target:
        ports = CutPorts(
            source, target, state, DeltaFactLog(config.ledger.path, SystemClock()), SystemClock()
        )
        return take_cut(flows_of_cut(config, pair), ports, operation_id=operation_id)


def flows_of_cut(config: MirrorConfig, pair: Pair) -> list[CutFlow]:
    """The flows of a pair with what a cut reads of them; raises `UsageError` where there is none."""

    def copies(flow_name: str, topic: str) -> bool:
        source_topic = config.flow(flow_name).naming.source_name(topic)
        return source_topic is not None and config.topic_selection(flow_name).selects(source_topic)

    topics: Collection[str] | None = pair.topics
    return [
        CutFlow(
            flow,
            config.topic_selection(flow.name),
            None if topics is None else frozenset(topics),
        )
        for flow in pair.flows_of(config.flows.values(), lambda flow, topic: copies(flow.name, topic))
    ]
