"""Which direction of a pair of clusters holds: what `promote` and `demote` ask before, and record."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ledger.changeover.cut import ends_to_keep
from ledger.changeover.pairs import Pair, _named, planned_way, require_opposites
from ledger.changeover.shut_out import let_in
from ledger.changeover.waiting import Behind, mirrors_at, written_behind
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig, TargetMode
from ledger.context import Context, require_stopped
from ledger.errors import ClusterUnavailableError, PreconditionError, UsageError
from ledger.facts.direction import (
    Demoted,
    DirectionChange,
    Directions,
    Promoted,
)
from ledger.facts.identity import ClusterAcceptance, ClusterIdentities
from ledger.facts.ways import Direction
from ledger.kafka.cluster import require_recorded
from ledger.offsets.setting import Answer
from ledger.offsets.sheets import require_few_repeats
from ledger.store.session import random_id
from ledger.topics.naming import NamingKind
from ledger.words import listed

# Directions ---------------------------------------------------------------------------------------
# Promoting a cluster over another one, and demoting it: what is asked, compared with configuration and
# ledger.


def require_promotable(
    pair: Pair, flows: Sequence[FlowConfig], directions: Directions, *, is_exchange: bool = False
) -> None:
    """Raise `PreconditionError` where applications and mirrors write side by side, or the other side is promoted.

    Only targets with the names of their sources, that are the flow's own, can take over from these: in others mirrors
    and applications never write to one topic, or always may. `is_exchange`: who promotes demotes the other side too,
    when all has come over: until then no flow of either direction writes.
    """
    shared = [flow.name for flow in flows if flow.target_mode is TargetMode.SHARED]
    if shared:
        raise PreconditionError(
            f"target_mode of {_named(shared)} is shared: applications write there beside the mirror at any time, so "
            f"there is nothing to promote; nothing was recorded"
        )
    renaming = [flow.name for flow in flows if flow.topic_naming is not NamingKind.IDENTITY]
    if renaming:
        raise PreconditionError(
            f"{_named(renaming)} gives topics other names at {pair.cluster}, where only the mirror writes to them: "
            "there is nothing to promote. Applications write to topics of the plain names there; nothing was recorded"
        )
    for topic, opposite in directions.promotions(pair.cluster, pair.former, pair.asked).items():
        if opposite is not None and not is_exchange:
            raise PreconditionError(
                f"{topic or 'every topic'} of {pair.former} was promoted over {pair.cluster} {opposite}: applications "
                "and mirrors change sides by a plan; nothing was recorded. "
                f"{planned_way(pair.former, pair.cluster)}"
            )


def is_done(
    pair: Pair, kind: type[DirectionChange], directions: Directions, *, no_reverse: bool = False
) -> bool:
    """Whether it is so already: nothing is to be recorded."""
    asked = (pair.former, pair.cluster, pair.asked)
    found = directions.promotions(*asked)
    if kind is Promoted and no_reverse:
        return directions.without_reverse(*asked)
    if kind is Promoted:
        return all(directions.are_applications_at(pair.cluster, pair.former, topic) for topic in found)
    return all(made_by is None for made_by in found.values())


def consequences(
    pair: Pair, kind: type[DirectionChange], flows: Collection[FlowConfig], *, is_at_cut: bool = False
) -> str:
    """What holds from now on; `is_at_cut`: what was written at both sides meanwhile is passed."""
    names = _named([flow.name for flow in flows])
    if kind is Promoted:
        return (
            f"{pair.words} is promoted: {names} writes there no more after the round under way, and follows nothing of "
            "it; that it has stopped is said by partition_stopped (status)"
        )
    place = "behind what was written at both sides meanwhile" if is_at_cut else "where it stood"
    return f"{pair.words} is promoted no more: {names} continues {place}"


def require_nothing_behind(pair: Pair, flows: Sequence[FlowConfig], written: Sequence[str]) -> None:
    """Raise `PreconditionError` where the cluster has records that no flow has copied: somebody writes there still.

    A flow that continues where it stood stops at them, or takes them for its own end.
    """
    if not written:
        return
    names = "" if pair.topics is None else "".join(f" --topic {topic}" for topic in pair.topics)
    raise PreconditionError(
        f"{pair.cluster} has records behind what {_named([flow.name for flow in flows])} has copied, and would stop at "
        "them; nothing was recorded:",
        *listed(written),
        f"Where applications are to come back: "
        f"{planned_way(pair.cluster, pair.former)}. Where they have left {pair.cluster}, and all was copied back: "
        f"mirror-ledger demote {pair.cluster} --over {pair.former}{names} --keep-ends --reason WHY",
    )


def require_not_left(
    cluster: str, topics: Iterable[str], clusters: Iterable[str], directions: Directions, *, undone: str
) -> None:
    """Raise `PreconditionError` where applications have left one of the topics for a cluster promoted over this one."""
    names = sorted({*topics})
    for other in sorted({*clusters} - {cluster}):
        for topic, made_by in directions.promotions(cluster, other, names).items():
            if made_by is not None and directions.are_applications_at(other, cluster, topic):
                raise PreconditionError(
                    f"{topic} of {other} was promoted over {cluster} {made_by}: applications work at {other}, not at "
                    f"{cluster}; {undone}. Once they have stopped there and all is copied back: mirror-ledger demote "
                    f'{other} --over {cluster} --keep-ends --reason "home again"'
                )


def require_settable(
    context: Context, way: Direction, answers: Sequence[Answer], *, despite_objectives: bool
) -> None:
    """Raise `PreconditionError` where offsets are not to be set by hand: applications have left the cluster for one
    that is promoted, or a group would read more again than `max_repeats_per_group` allows."""
    topics = {row["target_topic"] for row in answers} - {None}
    directions = context.state.directions()
    require_not_left(
        way.target, topics, context.config.clusters, directions, undone="no offset was set there"
    )
    if not despite_objectives:
        require_few_repeats(answers, context.config.allowed, way=(way.source, way.target))


# Declared -----------------------------------------------------------------------------------------
# What operators declare of clusters, as the commands tell it.


@dataclass(frozen=True, slots=True)
class Declared:
    """What was recorded, in words; no operation id: there was nothing to do."""

    operation_id: str | None
    words: str


# Put together -------------------------------------------------------------------------------------
# Which direction of a pair of clusters holds: what `promote` and `demote` record.


def change_direction(
    context: Context,
    kind: type[DirectionChange],
    pair: Pair,
    *,
    keep_ends: bool = False,
    no_reverse: bool = False,
    is_exchange: bool = False,
    cut_operation: str | None = None,
) -> Declared:
    """Record that a cluster is promoted over another one, or is so no longer.

    `keep_ends`: flows of the pair continue behind what was written at both sides meanwhile, by a cut. `no_reverse`: a
    promotion after which nothing is to be mirrored back. `is_exchange`: the other side may be promoted still.
    `cut_operation`: whose cut says where flows of what is demoted continue. As an operation of its own nothing is
    demoted where applications wrote. Raises, and records no change, when
    flows of the pair cannot be, or another cluster answers behind an alias. The cluster that is promoted must answer;
    of the other one its recorded id is taken where it does not.
    """
    flows = _flows_of(context.config, pair)
    directions = context.state.directions()
    if kind is Promoted:
        require_promotable(pair, flows, directions, is_exchange=is_exchange)
    if keep_ends:
        require_opposites(flows)
    is_new = not is_done(pair, kind, directions, no_reverse=no_reverse)
    is_own, operation_id = context.why.operation_id is None, context.why.operation_id or random_id()
    context = context.part_of(operation_id)
    change, words = None, ""
    if is_new:
        # Before a rule is removed: what is refused here has let nobody in.
        change = _change(context, kind, pair)
        is_at_cut = keep_ends or cut_operation is not None
        words = consequences(pair, kind, flows, is_at_cut=is_at_cut) + _fenced_words(context, kind, pair)
        if no_reverse and isinstance(change, Promoted):
            change = replace(change, no_reverse=True)
            words = f"{words}; nothing is to be mirrored back"
        if isinstance(change, Demoted) and is_own and not keep_ends:
            require_nothing_behind(pair, flows, _written_behind(context, pair, flows))
        if keep_ends:
            cut = ends_to_keep(context, pair, flows, operation_id=operation_id)
            cut_operation = cut.operation_id
            words = f"{words}; {cut.words}"
        if isinstance(change, Demoted):
            change = replace(change, cut_operation=cut_operation)
    # Rules before the record: a flow that may write again and is denied would stop for that.
    opened = None
    if kind is Demoted and context.state.shut_outs().has_rules(pair.cluster, pair.former, pair.ruled):
        opened = let_in(context, pair)
    said = "" if opened is None else f"{opened.words}; "
    if change is None:
        is_or_not = "is promoted already" if kind is Promoted else "is not promoted"
        return Declared(None if opened is None else opened.operation_id, f"{said}{pair.words} {is_or_not}")
    context.record(change)
    return Declared(operation_id, f"{said}{words}")


def _flows_of(config: MirrorConfig, pair: Pair) -> list[FlowConfig]:
    config.cluster(pair.cluster)
    config.cluster(pair.former)
    if pair.cluster == pair.former:
        raise UsageError(f"{pair.cluster} cannot be promoted over itself; nothing was recorded")
    return pair.flows_of(config.flows.values(), config.copies)


def _written_behind(context: Context, pair: Pair, flows: Sequence[FlowConfig]) -> list[str]:
    """What applications wrote at the cluster behind the maps of the flows, in words."""
    admin, state = context.cluster(pair.cluster), context.state
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


def _fenced_words(context: Context, kind: type[DirectionChange], pair: Pair) -> str:
    """A promotion alone opens nothing that was closed when applications left this cluster."""
    if kind is Demoted:
        return ""
    fenced = [
        one.fence.topic for one in context.state.fences().at(pair.cluster) if pair.names(one.fence.topic)
    ]
    if not fenced:
        return ""
    return (
        f"; {', '.join(fenced)} is fenced there, before applications are to write: mirror-ledger unfence "
        f"{pair.cluster} --reason WHY"
    )


def _change(context: Context, kind: type[DirectionChange], pair: Pair) -> DirectionChange:
    """The change with the ids of both clusters, as `change_direction` takes them."""
    return kind(
        cluster=pair.cluster,
        cluster_id=_live_id(context, pair.cluster),
        former=pair.former,
        former_id=_known_id(context, pair.former),
        topics=pair.topics,
        later=pair.later,
        left_out=pair.left_out,
    )


def _live_id(context: Context, alias: str) -> str:
    require_recorded(context.state, context.cluster(alias))
    return context.cluster(alias).cluster_id()


def _known_id(context: Context, alias: str) -> str:
    try:
        return _live_id(context, alias)
    except ClusterUnavailableError:
        recorded = context.state.identities().recorded_id(alias)
    if recorded is None:
        raise PreconditionError(
            f"{alias} does not answer, and nobody has recorded which cluster it is; nothing was recorded"
        )
    return recorded


# Cluster acceptance -------------------------------------------------------------------------------
# Accepting another cluster behind an alias, or one formatted again: what is asked, compared with the
# ledger.


def judge_acceptance(
    identities: ClusterIdentities, cluster: str, cluster_id: str, *, live_id: str, rebuilt: bool
) -> ClusterAcceptance | None:
    """The acceptance to record; None when the alias stands for that cluster already.

    Raises when it is not the one that answers, or when the ledger knows nothing that it could contradict.
    """
    possible = identities.possible_ids(cluster)
    if live_id != cluster_id:
        raise PreconditionError(
            f"the cluster that answers behind {cluster} has the Kafka cluster id {live_id}, not {cluster_id}; "
            "nothing was recorded"
        )
    if not possible:
        raise PreconditionError(
            f"nobody ever ran with {cluster}: the first driver or recorder makes {cluster_id} the one that it "
            "stands for; nothing was recorded"
        )
    if rebuilt and cluster_id not in possible:
        known = " and ".join(sorted(possible))
        raise UsageError(
            f"--rebuilt is for a cluster that was formatted again under the id that the ledger knows, {known}; "
            f"{cluster_id} is another one, whose producer ids are its own: leave --rebuilt out; nothing was recorded"
        )
    if possible == {cluster_id} and not rebuilt:
        return None
    return identities.accepting(cluster, cluster_id, rebuilt=rebuilt)


def acceptance_consequences(acceptance: ClusterAcceptance) -> str:
    """What holds from now on."""
    if acceptance.rebuilt:
        return (
            f"{acceptance.cluster} ({acceptance.cluster_id}) was formatted again: flows that write there get new "
            f"producer ids, those recorded until now name no mirror there any "
            "more; topics of the old names are new topics (source_recreated, target_recreated)"
        )
    no_longer = "" if acceptance.former_id is None else f", no longer for {acceptance.former_id}"
    return (
        f"{acceptance.cluster} stands for {acceptance.cluster_id} from now on{no_longer}: "
        "flows that write there get new producer ids; what is recorded of the former cluster stays, its topics are "
        "other topics than those of the same name here (source_recreated, target_recreated)"
    )


# Put together -------------------------------------------------------------------------------------
# Which cluster an alias stands for: what `accept-cluster` records.


def accept_cluster(context: Context, cluster: str, cluster_id: str, *, rebuilt: bool) -> Declared:
    """Record that an alias stands for the cluster that answers behind it now.

    Raises, and records nothing, when that is another one than `cluster_id`, or while a driver of a flow that
    touches the alias may be at work.
    """
    state, live_id = context.state, context.cluster(cluster).cluster_id()
    _require_no_drivers(context, cluster)
    acceptance = judge_acceptance(state.identities(), cluster, cluster_id, live_id=live_id, rebuilt=rebuilt)
    if acceptance is None:
        return Declared(None, f"it stands for {cluster_id} already")
    return Declared(context.record(acceptance), acceptance_consequences(acceptance))


def _require_no_drivers(context: Context, cluster: str) -> None:
    """A driver at work knows the former cluster's topics and ids."""
    for flow in context.config.flows.values():
        if cluster in (flow.source, flow.target):
            require_stopped(flow, context.state)
