"""Which direction of a pair of clusters holds: what `promote` and `demote` record."""

from collections.abc import Sequence
from dataclasses import replace

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.app.acts.cut import ends_to_keep
from ledger.app.acts.shut_out import let_in
from ledger.app.changeover.written import mirrors_at
from ledger.app.wiring import cluster_admin, operator_operations
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.domain.operations.directions import Demoted, DirectionChange, Promoted
from ledger.errors import ClusterUnavailableError, PreconditionError, UsageError
from ledger.operations.changeover.written_behind import Behind, written_behind
from ledger.operations.declared import Declared
from ledger.operations.directions import (
    Pair,
    consequences,
    is_done,
    require_nothing_behind,
    require_opposites,
    require_promotable,
)
from ledger.ports.ledger import require_recorded
from ledger.recording.operation_log import random_id


def change_direction(
    config: MirrorConfig,
    kind: type[DirectionChange],
    pair: Pair,
    *,
    keep_ends: bool = False,
    no_reverse: bool = False,
    is_exchange: bool = False,
    cut_operation: str | None = None,
    reason: str,
    ticket: str | None,
    operation_id: str | None = None,
) -> Declared:
    """Record that a cluster is promoted over another one, or is so no longer.

    `keep_ends`: flows of the pair continue behind what was written at both sides meanwhile, by a cut. `no_reverse`: a
    promotion after which nothing is to be mirrored back. `is_exchange`: the other side may be promoted still.
    `cut_operation`: whose cut says where flows of what is demoted continue. `operation_id`: what it is a part of, None:
    it is an operation of its own, and nothing is demoted where applications wrote. Raises, and records no change, when
    flows of the pair cannot be, or another cluster answers behind an alias. The cluster that is promoted must answer;
    of the other one its recorded id is taken where it does not.
    """
    flows = _flows_of(config, pair)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    directions = state.directions()
    if kind is Promoted:
        require_promotable(pair, flows, directions, is_exchange=is_exchange)
    if keep_ends:
        require_opposites(flows)
    is_new = not is_done(pair, kind, directions, no_reverse=no_reverse)
    is_own, operation_id = operation_id is None, operation_id or random_id()
    change, words = None, ""
    if is_new:
        # Before a rule is removed: what is refused here has let nobody in.
        change = _change(config, kind, pair, state)
        is_at_cut = keep_ends or cut_operation is not None
        words = consequences(pair, kind, flows, is_at_cut=is_at_cut) + _fenced_words(pair, kind, state)
        if no_reverse and isinstance(change, Promoted):
            change = replace(change, no_reverse=True)
            words = f"{words}; nothing is to be mirrored back"
        if isinstance(change, Demoted) and is_own and not keep_ends:
            require_nothing_behind(pair, flows, _written_behind(config, pair, flows, state))
        if keep_ends:
            cut = ends_to_keep(config, pair, flows, operation_id=operation_id)
            cut_operation = cut.operation_id
            words = f"{words}; {cut.words}"
        if isinstance(change, Demoted):
            change = replace(change, cut_operation=cut_operation)
    # Rules before the record: a flow that may write again and is denied would stop for that.
    opened = None
    if kind is Demoted and state.shut_outs().has_rules(pair.cluster, pair.former, pair.ruled):
        opened = let_in(config, pair, state, reason=reason, ticket=ticket, operation_id=operation_id)
    said = "" if opened is None else f"{opened.words}; "
    if change is None:
        is_or_not = "is promoted already" if kind is Promoted else "is not promoted"
        return Declared(None if opened is None else opened.operation_id, f"{said}{pair.words} {is_or_not}")
    operator_operations(config).record_parts(
        [change], operation_id=operation_id, flow=None, reason=reason, ticket=ticket
    )
    return Declared(operation_id, f"{said}{words}")


def _flows_of(config: MirrorConfig, pair: Pair) -> list[FlowConfig]:
    config.cluster(pair.cluster)
    config.cluster(pair.former)
    if pair.cluster == pair.former:
        raise UsageError(f"{pair.cluster} cannot be promoted over itself; nothing was recorded")
    return pair.flows_of(config.flows.values(), config.copies)


def _written_behind(
    config: MirrorConfig, pair: Pair, flows: Sequence[FlowConfig], state: DeltaLedgerState
) -> list[str]:
    """What applications wrote at the cluster behind the maps of the flows, in words."""
    with cluster_admin(config, pair.cluster) as admin:
        there = admin.topics()
        behind = [
            Behind(at.target_topic, at.target_topic_id, at.partition, at.position.target_offset)
            for flow in flows
            for at in state.positions(flow.name)
            if at.target_topic in there
            and there[at.target_topic].topic_id == at.target_topic_id
            and pair.names(at.target_topic)
        ]
        return written_behind(admin, behind, mirrors_at(state, admin.cluster_id()))


def _fenced_words(pair: Pair, kind: type[DirectionChange], state: DeltaLedgerState) -> str:
    """A promotion alone opens nothing that was closed when applications left this cluster."""
    if kind is Demoted:
        return ""
    fenced = [one.fence.topic for one in state.fences().at(pair.cluster) if pair.names(one.fence.topic)]
    if not fenced:
        return ""
    return (
        f"; {', '.join(fenced)} is fenced there, before applications are to write: mirror-ledger unfence "
        f"{pair.cluster} --reason WHY"
    )


def _change(
    config: MirrorConfig, kind: type[DirectionChange], pair: Pair, state: DeltaLedgerState
) -> DirectionChange:
    """The change with the ids of both clusters, as `change_direction` takes them."""
    return kind(
        cluster=pair.cluster,
        cluster_id=_live_id(config, pair.cluster, state),
        former=pair.former,
        former_id=_known_id(config, pair.former, state),
        topics=pair.topics,
        later=pair.later,
        left_out=pair.left_out,
    )


def _live_id(config: MirrorConfig, alias: str, state: DeltaLedgerState) -> str:
    with cluster_admin(config, alias) as admin:
        require_recorded(state, admin)
        return admin.cluster_id()


def _known_id(config: MirrorConfig, alias: str, state: DeltaLedgerState) -> str:
    try:
        return _live_id(config, alias, state)
    except ClusterUnavailableError:
        recorded = state.identities().recorded_id(alias)
    if recorded is None:
        raise PreconditionError(
            f"{alias} does not answer, and nobody has recorded which cluster it is; nothing was recorded"
        )
    return recorded
