"""Taking a cut of what is copied from one cluster to another."""

import time
from collections.abc import Sequence
from functools import partial

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.system import SystemClock
from ledger.app.wiring import cluster_admin, require_stopped
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.domain.offsets.cut_offsets import Cut
from ledger.mirror.partitions.cut_starts import require_usable
from ledger.operations.cut import CutFlow, CutPorts, take_cut
from ledger.operations.directions import Pair, require_opposites


def cut_of_pair(config: MirrorConfig, pair: Pair, *, operation_id: str, quiet_s: float | None = None) -> Cut:
    """Read both sides of every partition that flows of the pair copy; raises as `take_cut`.

    `quiet_s`: for how many seconds nothing may come there; None: that is proved otherwise.
    """
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    config.cluster(pair.former)
    config.cluster(pair.cluster)
    with cluster_admin(config, pair.former) as source, cluster_admin(config, pair.cluster) as target:
        ports = CutPorts(
            source, target, state, DeltaFactLog(config.ledger.path, SystemClock()), SystemClock()
        )
        pause = None if quiet_s is None else partial(time.sleep, quiet_s)
        return take_cut(flows_of_cut(config, pair), ports, operation_id=operation_id, pause=pause)


def ends_to_keep(config: MirrorConfig, pair: Pair, flows: Sequence[FlowConfig], *, operation_id: str) -> Cut:
    """Of the opposites of flows of a pair that is demoted: where each of these continues, behind what they wrote.

    Raises `UsageError` where a flow has no opposite, `PreconditionError` while a driver of one may be at work, and
    where nobody knows where a flow is to continue.
    """
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    for opposite in require_opposites(flows):
        require_stopped(config.flow(opposite), state)
    cut = cut_of_pair(config, Pair(pair.former, pair.cluster, pair.topics), operation_id=operation_id)
    for flow in flows:
        require_usable(flow, cut, undone="nothing was demoted")
    return cut


def flows_of_cut(config: MirrorConfig, pair: Pair) -> list[CutFlow]:
    """The flows of a pair with what a cut reads of them; raises `UsageError` where there is none."""
    chosen = None if pair.topics is None else frozenset(pair.topics)
    return [
        CutFlow(flow, config.topic_selection(flow.name), chosen)
        for flow in pair.flows_of(config.flows.values(), config.copies)
    ]
