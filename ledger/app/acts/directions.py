"""Which direction of a pair of clusters holds: what `promote` and `demote` record."""

from dataclasses import dataclass

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.app.wiring import cluster_admin, operator_operations
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.domain.cluster_identity import ClusterIdentities
from ledger.domain.operations.directions import DirectionChange, Promoted
from ledger.errors import ClusterUnavailableError, PreconditionError, UsageError
from ledger.operations.directions import Pair, consequences, is_done, require_promotable
from ledger.ports.clusters import live_cluster


@dataclass(frozen=True, slots=True)
class Changed:
    """What was recorded, in words; no operation id: there was nothing to do."""

    operation_id: str | None
    words: str


def change_direction(
    config: MirrorConfig, kind: type[DirectionChange], pair: Pair, *, reason: str, ticket: str | None
) -> Changed:
    """Record that a cluster is promoted over another one, or is so no longer.

    Raises, and records nothing, when flows of the pair cannot be, or another cluster answers behind an alias. The
    cluster that is promoted must answer; of the other one its recorded id is taken where it does not.
    """
    config.cluster(pair.cluster)
    config.cluster(pair.former)
    if pair.cluster == pair.former:
        raise UsageError(f"{pair.cluster} cannot be promoted over itself; nothing was recorded")
    flows = pair.flows_of(config.flows.values(), lambda flow, topic: _copies(config, flow, topic))
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    directions = state.directions()
    if kind is Promoted:
        require_promotable(pair, flows, directions)
    if is_done(pair, kind, directions):
        is_or_not = "is promoted already" if kind is Promoted else "is not promoted"
        return Changed(None, f"{pair.words} {is_or_not}")
    identities = state.identities()
    change = kind(
        cluster=pair.cluster,
        cluster_id=_live_id(config, pair.cluster, identities),
        former=pair.former,
        former_id=_known_id(config, pair.former, identities),
        topics=pair.topics,
    )
    operation_id = operator_operations(config).record(change, flow=None, reason=reason, ticket=ticket)
    return Changed(operation_id, consequences(pair, kind, flows))


def _copies(config: MirrorConfig, flow: FlowConfig, target_topic: str) -> bool:
    source_topic = flow.naming.source_name(target_topic)
    return source_topic is not None and config.topic_selection(flow.name).selects(source_topic)


def _live_id(config: MirrorConfig, alias: str, identities: ClusterIdentities) -> str:
    with cluster_admin(config, alias) as admin:
        live = live_cluster(admin)
    identities.require(alias, live)
    return live.cluster_id


def _known_id(config: MirrorConfig, alias: str, identities: ClusterIdentities) -> str:
    try:
        return _live_id(config, alias, identities)
    except ClusterUnavailableError:
        recorded = identities.recorded_id(alias)
    if recorded is None:
        raise PreconditionError(
            f"{alias} does not answer, and nobody has recorded which cluster it is; nothing was recorded"
        )
    return recorded
