"""What is seen before a failback, and before another cluster protects the one where applications write."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from ledger.changeover.brought import brought, last_incarnations
from ledger.changeover.chained import require_no_chain
from ledger.changeover.decisions import Decisions
from ledger.changeover.deficits import list_one_sided
from ledger.changeover.extras import Extras, compacted
from ledger.changeover.fencing import fence_parts, refusal
from ledger.changeover.holding import left_words
from ledger.changeover.left_behind import groups_left
from ledger.changeover.measures import AskedFence, asked_fence
from ledger.changeover.pairs import Pair, enabled_between
from ledger.changeover.plans import Choices, FenceChoice, PlannedTopic
from ledger.changeover.recreating import lacking_rights, lost_with_topics
from ledger.changeover.scope import RepeatCause, SeenCluster, SeenReturn
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.errors import UsageError
from ledger.facts.cut_offsets import Cut
from ledger.facts.direction import DIRECTION_AND_FENCE_KINDS, DirectionRows
from ledger.facts.extras import ExtrasPolicy
from ledger.facts.syncs import TopicPartition
from ledger.facts.tables import OPERATIONS, in_order
from ledger.facts.ways import Direction
from ledger.kafka.cluster import ClusterAdmin, topic_ids
from ledger.mirror.starts import place_of
from ledger.store.snapshots import DeltaSnapshot

# What is seen -------------------------------------------------------------------------------------


def see_return(
    context: Context,
    at: DeltaSnapshot,
    pair: Direction,
    choices: Choices,
    here: SeenCluster,
    there: SeenCluster,
) -> SeenReturn:
    """`pair`: from the promoted cluster to the one that is back, `here` and `there` as they answer.

    Of clusters that do not answer neither extras nor offsets are asked. Raises `UsageError` for a policy that there is
    not, or one of a topic that does not come back.
    """
    own = [one for one in _topics(context, at, pair, choices) if _is_there(one, here, there)]
    own.sort(key=lambda one: (one.flow, one.topic))
    topics = tuple([*own, *_new_topics(context, pair, choices, own, here, there)])
    if not topics:
        require_no_chain(context, pair, here, there)
    names = [one.topic for one in own]
    decided = Decisions.of(choices.extras, choices.deficits, undone="nothing was planned")
    decided.require_about(names, pair.target, undone="nothing was planned")
    directions = context.state.directions()
    not_promoted = tuple(
        name for name in names if not directions.are_applications_at(pair.source, pair.target, name)
    )
    is_open = all(
        (way := directions.way_back(pair.source, pair.target, one.topic)) is not None
        and way.holds(one.topic, one.topic_id)
        for one in own
    )
    found = SeenReturn(topics=topics, not_promoted=not_promoted, is_open=is_open)
    begun = context.state.recreations().begun(pair.target).keys() & set(names)
    current = [
        one for one in topics if one.topic in begun or there.topic_ids.get(one.topic, "") == one.topic_id
    ]
    current = [one for one in current if here.topic_ids.get(one.source_topic) == one.source_topic_id]
    are_promoted = bool(topics) and not not_promoted and current == list(topics)
    if None in (here.live_id, there.live_id) or not are_promoted:
        return found
    back, promoted = context.cluster(pair.target), context.cluster(pair.source)
    found.behind = _behind(context, topics, promoted)
    if is_open:
        return found
    found.compacted = compacted((back, promoted), names)
    decided = decided.of_compacted(found.compacted)
    changed = Pair(pair.source, pair.target, tuple(name for name in names if name not in begun))
    known = list_one_sided(context, changed)
    found.deficits, found.extras, starts = known.lacking, known.extras, known.starts
    lacking = {one.pair.source.topic for one in found.deficits}
    alone = {one.partition.topic for one in found.extras if not one.are_markers}
    there_still = {one.pair.source.topic for one in starts}
    recreated = decided.to_recreate(there_still, alone)
    found.recreated = recreated | begun
    found.not_returned = sorted(one for one in lacking - recreated if decided.of_deficits(one) is None)
    if recreated:
        found.topics = tuple(replace(one, topic_id="") if one.topic in recreated else one for one in topics)
        found.behind = _behind(context, found.topics, promoted)
        own_starts = [one for one in starts if one.pair.source.topic in recreated]
        found.lost_with_topics = lost_with_topics(
            context, back, promoted, own_starts, found.extras, known.paired
        )
        found.not_allowed = lacking_rights(context, pair.target, recreated)
    if not found.extras and not found.deficits:
        _require_no_cut_to_begin_at(context, at, pair, own)
    found.undecided = sorted(topic for topic in alone if decided.policy(topic) is None)
    found.repeats = _read_again(found.extras, decided, choices)
    found.expiring = list(left_words(context, pair.target, names))
    if choices.fence is not FenceChoice.CLOSED:  # that one is closed for reading, and keeps them out itself
        found.at_work = groups_left(context, pair.target, names).members
    found.not_fenced = open_at_target(context, pair.target, own, choices)
    asked = asked_fence_of_target(pair.target, found.not_fenced, choices)
    if found.not_fenced and asked is not None:
        found.fence_refusal = refusal(asked, fence_parts(context, pair.target))
    return found


def _read_again(
    extras: Iterable[Extras], decided: Decisions, choices: Choices
) -> dict[str, dict[str, int | None]]:
    """By group how many of the extras that come to it behind what it reads now it had read where they lie."""
    found: dict[str, int] = {}
    for one in extras:
        if decided.policy(one.partition.topic) is ExtrasPolicy.REPLICATE:
            for group, count in one.readers.items():
                if choices.groups is None or group in choices.groups:
                    found[group] = found.get(group, 0) + count
    return {group: {RepeatCause.READ_BEFORE: count} for group, count in sorted(found.items())}


def _require_no_cut_to_begin_at(
    context: Context, at: DeltaSnapshot, pair: Direction, topics: Sequence[PlannedTopic]
) -> None:
    """Raise `UsageError` where applications have moved by a switchover: the way back begins at its cut, and nothing
    was left behind that anybody has to decide about."""
    rows = DirectionRows.of_rows(
        in_order(at.rows(OPERATIONS.name, [("kind", "in", DIRECTION_AND_FENCE_KINDS)]))
    )
    cuts: dict[str, Cut] = {}
    for one in topics:
        promotion = rows.promotion(
            source=pair.target, target=pair.source, source_topic=one.topic, topic=one.source_topic
        )
        flow = context.config.flow(one.flow)
        if promotion is None or flow.opposite is None:
            continue
        operation_id = promotion.operation_id
        if operation_id not in cuts:
            cuts[operation_id] = context.state.cut(operation_id)
        cut = cuts[operation_id]
        if any(
            place_of(flow, cut, topic, partition) is not None
            for topic, partition in cut.pairs(flow.opposite)
            if topic == one.source_topic
        ):
            raise UsageError(
                f"applications moved to {pair.source} by operation {operation_id} while {pair.target} answered, and "
                f"nothing was left there: mirror-ledger run {flow.name} --from-cut {operation_id} where it is not at "
                f"work, then mirror-ledger plan switchover --from {pair.source} --to {pair.target}; nothing was planned"
            )


def _is_there(one: PlannedTopic, here: SeenCluster, there: SeenCluster) -> bool:
    """Whether the topic is at any side, as far as both answer: what was deleted at both comes to neither."""
    if None in (here.live_id, there.live_id):
        return True
    return one.source_topic in here.topic_ids or one.topic in there.topic_ids


def _new_topics(
    context: Context,
    pair: Direction,
    choices: Choices,
    own: Collection[PlannedTopic],
    here: SeenCluster,
    there: SeenCluster,
) -> list[PlannedTopic]:
    """What applications have created where they are since, and the way back has brought: nothing of it was ever at the
    cluster that is back alone."""
    known, directions = {one.topic for one in own}, context.state.directions()
    found = {
        PlannedTopic(
            flow=flow.name,
            source_topic=at.source_topic,
            source_topic_id=at.source_topic_id,
            topic=at.target_topic,
            topic_id=at.target_topic_id,
        )
        for flow in enabled_between(context.config, pair)
        if flow.opposite is not None
        for at in context.state.positions(flow.name)
        if at.target_topic not in known and at.target_topic not in choices.left_out
        if choices.topics is None or at.target_topic in choices.topics
        if here.topic_ids.get(at.source_topic) == at.source_topic_id
        if there.topic_ids.get(at.target_topic) == at.target_topic_id
        if directions.are_applications_at(pair.source, pair.target, at.source_topic)
    }
    return sorted(found, key=lambda one: (one.flow, one.topic))


def see_protection(
    context: Context, pair: Direction, choices: Choices, here: SeenCluster, there: SeenCluster
) -> SeenReturn:
    """`pair`: to a cluster that gets all that flows from the source copy; of a source that does not answer as recorded
    last, and nobody knows how much."""
    topics = set()
    recorded = {one.topic: one.topic_id for one in context.state.last_topic_states(pair.source)}
    at_source = recorded if here.live_id is None else here.topic_ids
    for flow in enabled_between(context.config, pair):
        selection = context.config.topic_selection(flow.name)
        for name, topic_id in at_source.items():
            target = flow.naming.target_name(name)
            is_chosen = choices.topics is None or target in choices.topics
            if selection.selects(name) and is_chosen and target not in choices.left_out:
                topics.add(
                    PlannedTopic(
                        flow=flow.name,
                        source_topic=name,
                        source_topic_id=topic_id,
                        topic=target,
                        topic_id=there.topic_ids.get(target, ""),
                    )
                )
    if there.identity_problem is None:
        _require_not_lost(context, pair, here, there)
    found = SeenReturn(topics=tuple(sorted(topics, key=lambda one: (one.flow, one.topic))), is_open=True)
    if found.topics and here.live_id is not None:
        found.behind = _behind(context, found.topics, context.cluster(pair.source))
        found.bytes = _bytes(context.cluster(pair.source), found.topics, found.behind)
    return found


def _require_not_lost(context: Context, pair: Direction, here: SeenCluster, there: SeenCluster) -> None:
    """Raise `UsageError` where the cluster is one that was lost, as it was: it has what was never copied."""
    require_no_chain(context, pair, here, there)
    for flow in enabled_between(context.config, pair):
        for at in () if flow.opposite is None else context.state.positions(flow.opposite):
            is_intact = there.topic_ids.get(at.source_topic) == at.source_topic_id
            if is_intact and here.topic_ids.get(at.target_topic) == at.target_topic_id:
                raise UsageError(
                    f"{pair.target} is the cluster that {at.source_topic} was copied from: mirror-ledger plan failback "
                    f"--from {pair.source} --to {pair.target} --stop-before switch; nothing was planned"
                )


_SAMPLES = 50


def _bytes(source: ClusterAdmin, topics: Sequence[PlannedTopic], offsets: int | None) -> int | None:
    """What so many offsets may take, by the first batches of some partitions; None: nothing tells."""
    described = source.topics()
    places = [
        (TopicPartition(one.source_topic, one.source_topic_id, partition))
        for one in topics
        for partition in range(described[one.source_topic].partitions)
    ][:_SAMPLES]
    ends = source.ends([at.place for at in places])
    batches = [
        header
        for at in places
        if (end := ends.get(at.place)) is not None and end.log_start < end.high_watermark
        for header in source.batches_at(at, end.log_start)
    ]
    seen = sum(header.end_offset - header.base_offset for header in batches)
    return None if offsets is None or not seen else offsets * sum(one.size for one in batches) // seen


def _topics(context: Context, at: DeltaSnapshot, pair: Direction, choices: Choices) -> set[PlannedTopic]:
    """Of flows that bring back what their opposites had copied: each topic that one had, as it was copied last."""
    found, recreations = set(), context.state.recreations()
    for flow in enabled_between(context.config, pair):
        if flow.opposite is None:
            continue
        forward = context.config.flow(flow.opposite)
        for name, ids in _last_copied(context, at, forward).items():
            if name not in choices.left_out and (choices.topics is None or name in choices.topics):
                found.add(
                    PlannedTopic(
                        flow=flow.name,
                        source_topic=name,
                        source_topic_id=ids[1],
                        topic=name,
                        topic_id=recreations.current(ids[0]) or "",
                    )
                )
    return found


def _last_copied(context: Context, at: DeltaSnapshot, forward: FlowConfig) -> dict[str, tuple[str, str]]:
    """By name the topic ids at both sides; flows with an opposite keep names."""
    selection = context.config.topic_selection(forward.name)
    new = list(brought(context.state, forward))
    incarnations = last_incarnations(at, forward, new)
    return {
        one.source_topic: (one.source_topic_id, one.target_topic_id)
        for one in (*context.state.positions(forward.name), *new)
        if selection.selects(one.source_topic) and incarnations.get(one.source_topic) == one.source_topic_id
    }


def _behind(context: Context, topics: Sequence[PlannedTopic], promoted: ClusterAdmin) -> int | None:
    """Offsets of the promoted cluster that have not come back, as both are now; None: a partition has no leader."""
    reached: dict[tuple[str, int], int] = {}
    for flow in {one.flow for one in topics}:
        opposite = context.config.flow(flow).opposite
        ids = {one.source_topic: one.source_topic_id for one in topics if one.flow == flow}
        into = {one.topic: one.topic_id for one in topics if one.flow == flow}
        for at in () if opposite is None else context.state.positions(opposite):
            is_same = into.get(at.source_topic) == at.source_topic_id
            if is_same and ids.get(at.target_topic) == at.target_topic_id:
                place = at.target_topic, at.partition
                reached[place] = max(reached.get(place, 0), at.position.target_offset)
        for at in context.state.positions(flow):
            is_same = into.get(at.target_topic) == at.target_topic_id
            if is_same and ids.get(at.source_topic) == at.source_topic_id:
                place = at.source_topic, at.partition
                reached[place] = max(reached.get(place, 0), at.position.source_offset)
    described = promoted.topics()
    places = [
        (one.source_topic, partition)
        for one in topics
        for partition in range(described[one.source_topic].partitions)
    ]
    ends = promoted.ends(places)
    if any(place not in ends for place in places):
        return None
    return sum(max(ends[at].high_watermark - max(reached.get(at, 0), ends[at].log_start), 0) for at in places)


# The fence ----------------------------------------------------------------------------------------


def open_at_target(
    context: Context, cluster: str, topics: Iterable[PlannedTopic], choices: Choices
) -> list[str]:
    """Names of topics of the cluster that is back which the plan's fence has to close, for reading too if by rules."""
    # What was fenced before it is deleted counts as fenced until something has its place.
    former = {**topic_ids(context.cluster(cluster)), **context.state.recreations().begun(cluster)}
    ids = [(one.topic, one.topic_id or former.get(one.topic, "")) for one in topics]
    for_reading = choices.fence is FenceChoice.CLOSED
    return context.state.fences().open_topics(cluster, ids, for_reading=for_reading)


def asked_fence_of_target(cluster: str, topics: Sequence[str], choices: Choices) -> AskedFence | None:
    """How the plan's fence closes the cluster that is back as well, rules for reading too: groups that come back with
    it would read what it has alone, and all that comes back. None: a hook's, or none, people make before."""
    if choices.fence not in (FenceChoice.CLOSED, FenceChoice.SHUT):
        return None
    asked = asked_fence(cluster, topics, choices, None)
    return None if asked is None else replace(asked, reading=choices.fence is FenceChoice.CLOSED)
