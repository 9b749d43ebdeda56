"""Which direction of a pair of clusters holds: what `promote` and `demote` record."""

from dataclasses import replace

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.app.acts.cut import ends_to_keep
from ledger.app.acts.shut_out import let_in
from ledger.app.wiring import cluster_admin, operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.domain.operations.directions import Demoted, DirectionChange, Promoted
from ledger.errors import ClusterUnavailableError, PreconditionError, UsageError
from ledger.operations.declared import Declared
from ledger.operations.directions import Pair, consequences, is_done, require_opposites, require_promotable
from ledger.ports.ledger import require_recorded
from ledger.recording.operation_log import random_id


def change_direction(
    config: MirrorConfig,
    kind: type[DirectionChange],
    pair: Pair,
    *,
    keep_ends: bool = False,
    no_reverse: bool = False,
    reason: str,
    ticket: str | None,
    operation_id: str | None = None,
) -> Declared:
    """Record that a cluster is promoted over another one, or is so no longer.

    `keep_ends`: flows of the pair continue behind what was written at both sides meanwhile, by a cut. `no_reverse`: a
    promotion after which nothing is to be mirrored back. `operation_id`: what it is a part of, None: it is an operation
    of its own. Raises, and records no change, when flows of the pair cannot be, or another cluster answers behind an
    alias. The cluster that is promoted must answer; of the other one its recorded id is taken where it does not.
    """
    config.cluster(pair.cluster)
    config.cluster(pair.former)
    if pair.cluster == pair.former:
        raise UsageError(f"{pair.cluster} cannot be promoted over itself; nothing was recorded")
    flows = pair.flows_of(config.flows.values(), config.copies)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    directions = state.directions()
    if kind is Promoted:
        require_promotable(pair, flows, directions)
    if keep_ends:
        require_opposites(flows)
    is_new = not is_done(pair, kind, directions, no_reverse=no_reverse)
    operation_id = operation_id or random_id()
    change, words = None, ""
    if is_new:
        # Before a rule is removed: what is refused here has let nobody in.
        change = _change(config, kind, pair, state)
        words = consequences(pair, kind, flows) + _fenced_words(pair, kind, state)
        if no_reverse and isinstance(change, Promoted):
            change = replace(change, no_reverse=True)
            words = f"{words}; nothing is to be mirrored back"
        if keep_ends and isinstance(change, Demoted):
            cut = ends_to_keep(config, pair, flows, operation_id=operation_id)
            change = replace(change, cut_operation=cut.operation_id)
            words = f"{words}, behind what was written at both sides meanwhile; {cut.words}"
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


def _fenced_words(pair: Pair, kind: type[DirectionChange], state: DeltaLedgerState) -> str:
    """A promotion alone opens nothing that was closed when applications left this cluster."""
    if kind is Demoted:
        return ""
    fenced = [one.fence.topic for one in state.fences().at(pair.cluster) if pair.names(one.fence.topic)]
    if not fenced:
        return ""
    return (
        f"; {', '.join(fenced)} is fenced there: mirror-ledger unfence {pair.cluster}, before applications "
        "are to write"
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
