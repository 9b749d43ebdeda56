"""What a plan is made from, gathered: the ledger at a cut, and each cluster as far as it answers."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ledger.changeover.approving import Approvals, approvals_of, last_plan
from ledger.changeover.brought import brought, last_incarnations
from ledger.changeover.extras import compacted
from ledger.changeover.failback import see_protection, see_return
from ledger.changeover.fencing import fence_parts, refusal, write_pauses
from ledger.changeover.groups import outputs_kept_to
from ledger.changeover.losses import ALL_OF_IT, NOTHING_READ, UnrecordedCopies, losses
from ledger.changeover.measures import asked_fence
from ledger.changeover.not_followed import not_followed
from ledger.changeover.pairs import enabled_between
from ledger.changeover.planning import Planned, planned
from ledger.changeover.plans import (
    Applies,
    Apply,
    ApplyState,
    ChangeoverKind,
    Choices,
    FenceChoice,
    Plan,
    StepName,
    id_of,
    last_downtimes,
    last_step_seconds,
    recorded_plan,
)
from ledger.changeover.scope import (
    KnownMap,
    NotCopied,
    Scope,
    Seen,
    SeenCluster,
    SeenFlow,
    SeenReturn,
    from_elsewhere,
)
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.changeovers import PlanRecorded
from ledger.facts.cut_offsets import Cut
from ledger.facts.direction import Directions
from ledger.facts.fences import Evidence, FenceHow, quiet_time
from ledger.facts.groups import has_members
from ledger.facts.operations import OperationKind
from ledger.facts.requests import FlowRequests, Pauses, pausing
from ledger.facts.roles import RoleVerdict, recorder_of, writer_of
from ledger.facts.syncs import FlowPosition, TopicPartition
from ledger.facts.tables import CHECKPOINTS, OPERATIONS
from ledger.facts.ways import Direction
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import ClusterAdmin, live_cluster
from ledger.offsets.between_clusters import require_direction, unread_groups_at
from ledger.offsets.restored import unread_since_restored
from ledger.offsets.setting import ACCEPTABLE, NOT_COPIED, Choice, Outcome, Setting
from ledger.offsets.sheets import Asked, CommitsRead, computed_sheet, group_answers, is_used, synced_at
from ledger.recorders.observation import RecorderSettings
from ledger.roles import driver_verdict, heartbeat_ms
from ledger.store import answers
from ledger.store.catalog import Value
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.state import DeltaLedgerState
from ledger.topics.naming import INTERNAL_FLOWS

# Seeing -------------------------------------------------------------------------------------------


_SILENT_HEARTBEATS = 3
_HINDRANCES = frozenset(
    {Outcome.SEVERAL_ANSWERS, Outcome.GROUP_DENIED, Outcome.OTHER_TYPE, Outcome.OTHER_TOPIC, Outcome.NEWER}
)
"""What the target says against a place, beside members that a group has there: these are counted by group."""


def see(
    context: Context,
    kind: ChangeoverKind,
    pair: Direction,
    choices: Choices,
    *,
    fence_hook: str | None = None,
    as_of: str | None = None,
    lost_at_ms: int | None = None,
) -> Seen:
    """Raises `UsageError` for clusters that the configuration does not have, `PreconditionError` for an empty ledger.

    A cluster that does not answer is no error: the plan says what that means. `lost_at_ms`: up to when such a source is
    taken to have been written to, None: now.
    """
    config = context.config
    for alias in (pair.source, pair.target):
        config.cluster(alias)
    at = context.snapshot(as_of)
    require_direction(config, at, pair)
    state, asked_at_ms = context.state, lost_at_ms or context.clock.now_ms()
    source, target = context.cluster(pair.source), context.cluster(pair.target)
    here, there = _cluster(source, state), _cluster(target, state)
    flows = enabled_between(config, pair)
    asked = Asked(
        pair,
        Choice((*ACCEPTABLE, NOT_COPIED), overwrite_newer=choices.overwrite_newer),
        outputs=outputs_kept_to(config, kind),
    )
    moves = kind is not ChangeoverKind.PROTECT
    asks_source = moves and as_of is None and here.live_id is not None
    settings = _settings(at, asked, target, there) if moves else []
    places = [one.answer for one in settings]
    directions, carried_out = state.directions(), (read_applies(at), _rows(at, OperationKind.PLAN))
    seen_flows = [_flow(context, at, kind, flow, (here, there)) for flow in flows]
    maps = known_maps(context, pair)
    # Where names differ, or both sides are written to at any time, both flows continue, and groups move as ever.
    is_return = kind is ChangeoverKind.FAILBACK and any(flow.opposite is not None for flow in flows)
    returned = see_return(context, at, pair, choices, here, there) if is_return else None
    if not moves:
        returned = see_protection(context, pair, choices, here, there)
    leaving, checkpoints = _leaving(seen_flows, choices, returned), state.last_checkpoints(pair.source)
    found_losses = losses_of(
        at,
        pair,
        # A source that does not answer has taken nothing since it was asked.
        at_ms=None if as_of else asked_at_ms if here.live_id is None else context.clock.now_ms(),
        unrecorded=_held_behind_maps(seen_flows, target if context.asks_clusters else None, there),
    )
    if kind.is_planned:  # what comes meanwhile is copied too: nobody has to estimate it
        found_losses = [{**row, "estimate": 0, "at_most": row["records"]} for row in found_losses]
    return Seen(
        source=here,
        target=there,
        flows=seen_flows,
        directions=directions,
        direction_id=_direction_id(directions, pair),
        permissions=_permissions(state, (here, there)),
        places=places,
        used=is_used(settings, synced_at(at, pair.target)),
        hindered={one.place: one.outcome for one in settings if one.outcome in _HINDRANCES},
        unread_groups=unread_groups_at(at, pair.source),
        pending=frozenset(one.group_id for one in checkpoints if one.transaction_pending),
        active=_active(target, {row["group_id"] for row in places} - {None}, there),
        losses=found_losses,
        commits=_commits_read(at, pair.source, found_losses, None if as_of else asked_at_ms),
        downtimes=last_downtimes(*carried_out, from_cluster=pair.source, to_cluster=pair.target),
        step_seconds=last_step_seconds(*carried_out, from_cluster=pair.source, to_cluster=pair.target),
        reverse_flows=reverse_flows(config, flows),
        extras=_extras(at, pair, seen_flows, directions) if kind.is_planned and returned is None else {},
        objectives=config.allowed,
        target_fences=[one.fence for one in state.fences().at(pair.target)],
        fence_refusal=_fence_refusal(context, pair, seen_flows, choices, fence_hook, leaving),
        fence_quiet_s=_fence_quiet_s(context, source, choices, leaving) if asks_source else 0.0,
        memberless=frozenset(one.group_id for one in checkpoints if has_members(one.group_state) is not True),
        shut_out_problem=_shut_out_problem(context, pair.target, there),
        cut=at.cut.token,
        not_copied=[
            _not_copied(one, source, here, found_losses)
            for one in maps
            if _is_left(one, pair, state, here, there)
        ],
        elsewhere=from_elsewhere(maps, pair.source, pair.target),
        records_group=_records_group(config, at, pair.source),
        returned=returned,
        not_followed=None if as_of else not_followed(state, flows, _selects(config)),
        seen_at_ms=asked_at_ms,
        transactions=_transactions(source) if asks_source else {},
        static_members=_static_members(source, places) if asks_source else {},
    )


def _transactions(source: ClusterAdmin) -> Mapping[str, frozenset[int]] | None:
    """By topic, as leaders remember them; brokers before 2.8 cannot be asked."""
    try:
        partitions = [
            TopicPartition(name, topic.topic_id, number)
            for name, topic in source.topics().items()
            if not topic.internal and topic.topic_id is not None
            for number in range(topic.partitions)
        ]
        return source.transactional_producers(partitions)
    except (ClusterUnavailableError, PreconditionError):
        return None


def _static_members(
    source: ClusterAdmin, places: Sequence[Mapping[str, Any]]
) -> Mapping[str, Sequence[str]] | None:
    """By group that has a place; None: the cluster does not say."""
    try:
        return source.static_members(sorted({row["group_id"] for row in places} - {None}))
    except (ClusterUnavailableError, PreconditionError):
        return None


def _selects(config: MirrorConfig) -> Callable[[FlowConfig, str], bool]:
    return lambda flow, topic: config.topic_selection(flow.name).selects(topic)


def scope_of(context: Context, plan: Plan) -> Scope:
    """What carrying out a plan is about."""
    return Scope(
        topics=plan.topics,
        choices=plan.choices,
        elsewhere=from_elsewhere(
            known_maps(context, Direction(plan.from_cluster, plan.to_cluster)),
            plan.from_cluster,
            plan.to_cluster,
        ),
        records_group=_records_group(context.config, context.snapshot(), plan.from_cluster),
    )


def _records_group(config: MirrorConfig, at: DeltaSnapshot, alias: str) -> Callable[[str], bool]:
    """Whether recorders keep a group of a cluster; none, as long as nobody has read them since a restoration."""
    if unread_since_restored(at, alias) is not None:
        return lambda _group: False
    return recorder_settings(config, alias).records_group


def recorder_settings(config: MirrorConfig, alias: str) -> RecorderSettings:
    """What recorders of a cluster take."""
    return RecorderSettings.of_flows(
        [flow for flow in config.enabled_flows if alias in (flow.source, flow.target)]
    )


def known_maps(context: Context, pair: Direction) -> list[KnownMap]:
    """Of all flows that the ledger knows into the two clusters, whether the configuration has them still."""
    config, state = context.config, context.state
    directions = state.directions()
    found = []
    for flow, (source, target) in sorted(state.identities().ways().items()):
        if target not in (pair.source, pair.target) or flow.endswith(INTERNAL_FLOWS):
            continue
        opposite = config.flows[flow].opposite if flow in config.flows else None
        enabled = enabled_between(config, Direction(source, target))
        topics = {
            (at.source_topic, at.source_topic_id, at.target_topic, at.target_topic_id)
            for at in state.positions(flow)
        }
        found += [
            KnownMap(
                flow=flow,
                source=source,
                target=target,
                source_topic=source_topic,
                source_topic_id=source_topic_id,
                topic=topic,
                topic_id=topic_id,
                is_copied=any(_copies(config, one, source_topic, topic) for one in enabled),
                is_held=directions.held_back(flow, opposite, source=source, target=target, topic=topic)
                is not None,
            )
            for source_topic, source_topic_id, topic, topic_id in sorted(topics)
        ]
    return found


def _copies(config: MirrorConfig, flow: FlowConfig, source_topic: str, topic: str) -> bool:
    selection = config.topic_selection(flow.name)
    return selection.selects(source_topic) and flow.naming.target_name(source_topic) == topic


def _is_left(
    one: KnownMap, pair: Direction, state: DeltaLedgerState, source: SeenCluster, target: SeenCluster
) -> bool:
    """Whether both topics of a map of the pair are there, and nobody copies: silence of a cluster deletes nothing."""
    if one.is_copied or (one.source, one.target) != (pair.source, pair.target):
        return False
    if target.live_id is not None and target.topic_ids.get(one.topic) != one.topic_id:
        return False
    if source.live_id is not None:
        return source.topic_ids.get(one.source_topic) == one.source_topic_id
    recorded = {state.topic: state.topic_id for state in state.last_topic_states(source.alias)}
    is_deleted = one.source_topic_id in state.deleted_topic_ids(source.alias)
    return not is_deleted and recorded.get(one.source_topic, one.source_topic_id) == one.source_topic_id


def _not_copied(
    one: KnownMap, source: KafkaAdmin, seen: SeenCluster, found: Sequence[Mapping[str, Any]]
) -> NotCopied:
    """With what lies behind its map: as its leaders say now, or as the ledger has it of a source that does not."""
    mine = [
        row
        for row in found
        if (row["flow"], row["source_topic"], row["source_topic_id"])
        == (one.flow, one.source_topic, one.source_topic_id)
    ]
    if seen.live_id is not None and (live := _live_beyond(source, mine)) is not None:
        return NotCopied(flow=one.flow, source_topic=one.source_topic, topic=one.topic, beyond=live)
    records, ages = [row["records"] for row in mine], [row["age_seconds"] for row in mine]
    is_known = bool(mine) and None not in records
    return NotCopied(
        flow=one.flow,
        source_topic=one.source_topic,
        topic=one.topic,
        beyond=sum(records) if is_known else None,
        age_seconds=max(ages) if is_known and None not in ages else None,
    )


def _live_beyond(source: KafkaAdmin, rows: Sequence[Mapping[str, Any]]) -> int | None:
    """None: a partition has no leader, or nobody knows how far it was copied."""
    copied = {(row["source_topic"], row["partition"]): row["copied_to"] for row in rows}
    ends = source.ends(sorted(copied))
    if not copied or None in copied.values() or ends.keys() != copied.keys():
        return None
    return sum(max(ends[place].high_watermark - (to or 0), 0) for place, to in copied.items())


def _leaving(flows: Sequence[SeenFlow], choices: Choices, returned: SeenReturn | None) -> set[str]:
    """Topics of the source that the plan is about."""
    if returned is not None:
        return {one.source_topic for one in returned.topics}
    return {
        one.source_topic
        for flow in flows
        for one in flow.positions
        if one.target_topic not in choices.left_out
        and (choices.topics is None or one.target_topic in choices.topics)
    }


def _fence_refusal(
    context: Context,
    pair: Direction,
    flows: Sequence[SeenFlow],
    choices: Choices,
    hook: str | None,
    topics: Collection[str],
) -> str | None:
    asked = asked_fence(pair.source, sorted(topics), choices, hook)
    if asked is None or not topics:
        return None
    if asked.how is FenceHow.SHUT and (
        stopped := _flows_that_continue(context.config, pair.source, topics, flows)
    ):
        names = ", ".join(stopped)
        return f"{names} writes to these topics of {pair.source} as well, at any time: shut would stop it too"
    return refusal(asked, fence_parts(context, pair.source))


def _fence_quiet_s(
    context: Context, source: ClusterAdmin, choices: Choices, topics: Collection[str]
) -> float:
    """For how many seconds the fence watches partitions of which nothing but stillness proves that nobody writes."""
    watched: Collection[str] = ()
    if choices.fence is FenceChoice.HOOK:
        watched = topics
    elif choices.fence is FenceChoice.SHUT:
        watched = compacted((source,), topics)  # records as small as tombstones pass
    if not watched:
        return 0.0
    there, pauses = source.topics(), write_pauses(context, source.alias)
    times = (
        quiet_time(Evidence.STILLNESS, pauses.get((str(one.topic_id), number)), choices.quiet, is_empty=False)
        for one in (there[name] for name in watched if name in there)
        for number in range(one.partitions)
    )
    return max((one.seconds for one in times), default=0.0)


def _flows_that_continue(
    config: MirrorConfig, cluster: str, topics: Collection[str], leaving: Sequence[SeenFlow]
) -> list[str]:
    """Flows into topics of the source. Opposites of what is promoted write there only once the fence is lifted."""
    held = {flow.config.opposite for flow in leaving if flow.is_promotable}
    return sorted(
        flow.name
        for flow in config.enabled_flows
        if flow.target == cluster
        and flow.name not in held
        and any(config.copies(flow, topic) for topic in topics)
    )


def _shut_out_problem(context: Context, target: str, seen: SeenCluster) -> str | None:
    """Whether the mirror can be denied is asked of who would do it; a cluster that does not answer says nothing."""
    if context.config.cluster(target).mirror_principal is None:
        return f"clusters.{target} has no mirror_principal"
    if seen.live_id is None:
        return None
    try:
        context.administered(target).topic_acls()
    except PreconditionError as error:
        return str(error)
    return None


def _cluster(admin: KafkaAdmin, state: DeltaLedgerState) -> SeenCluster:
    identities = state.identities()
    recorded_id = identities.recorded_id(admin.alias)
    seen = SeenCluster(alias=admin.alias, recorded_id=recorded_id, live_id=None, trouble=None, topic_ids={})
    try:
        live = live_cluster(admin)
        topic_ids = {name: topic.topic_id for name, topic in admin.topics().items() if not topic.internal}
    except ClusterUnavailableError as error:
        return replace(seen, trouble=str(error))
    seen = replace(seen, live_id=live.cluster_id, topic_ids=topic_ids)
    try:
        identities.require(admin.alias, live)
    except PreconditionError as error:
        return replace(seen, identity_problem=str(error))
    return seen


def _flow(
    context: Context,
    at: DeltaSnapshot,
    kind: ChangeoverKind,
    flow: FlowConfig,
    seen: tuple[SeenCluster, SeenCluster],
) -> SeenFlow:
    """Of a failover also topics that nobody has begun with, and that applications came to: what they had before is at
    both sides."""
    (source, target), state = seen, context.state
    claim = state.last_claim(writer_of(flow.name))
    verdict = driver_verdict(flow, claim, context.processes, now_ms=context.clock.now_ms())
    selection = context.config.topic_selection(flow.name)
    known = source.topic_ids or {one.topic: one.topic_id for one in state.last_topic_states(source.alias)}
    new = [] if kind.is_planned else list(brought(state, flow))
    positions = [
        one
        for one in (*state.positions(flow.name), *new)
        if selection.selects(one.source_topic) and not _is_deleted(one, known, target)
    ]
    copied = {position.source_topic for position in positions}
    is_behind = verdict is not RoleVerdict.IN_USE and claim is not None and target.live_id is not None
    return SeenFlow(
        config=flow,
        driver=verdict,
        positions=positions,
        incarnations=last_incarnations(at, flow, new),
        stopped=state.stopped_partitions(flow.name),
        unmirrored=[name for name in known if selection.selects(name) and name not in copied],
        unrecorded=_unrecorded(context, flow, positions, target, claim.last_recorded_at_ms)
        if is_behind and claim is not None
        else (),
        paused=_paused(state.requests(flow.name)),
    )


def _paused(requests: FlowRequests) -> Pauses:
    """What the driver has stopped at, not what it was asked for alone."""
    return Pauses.by(one for one in pausing(requests.asked) if one.operation_id in requests.answered)


def _is_deleted(at: FlowPosition, at_source: Collection[str], target: SeenCluster) -> bool:
    """Whether the topic was deleted at both sides: a target that does not answer says nothing."""
    return (
        target.live_id is not None
        and at.source_topic not in at_source
        and at.target_topic not in target.topic_ids
    )


def _unrecorded(
    context: Context,
    flow: FlowConfig,
    positions: Sequence[FlowPosition],
    seen: SeenCluster,
    recorded_at_ms: int,
) -> list[tuple[str, int]]:
    """Partitions that end with the flow's own records from long after the ledger heard of it last.

    A driver records each round at its end, so what it may have left unrecorded is of a round: more says that another
    copy of the ledger knows more.
    """
    target = context.cluster(seen.alias)
    producer = context.state.identities().producers(str(seen.live_id)).get(flow.name)
    here = [one for one in positions if seen.topic_ids.get(one.target_topic) == one.target_topic_id]
    ends = target.ends([(one.target_topic, one.partition) for one in here])
    allowed_ms = _SILENT_HEARTBEATS * heartbeat_ms(flow)
    found = []
    for one in here:
        end = ends.get((one.target_topic, one.partition))
        if producer is None or end is None or end.high_watermark <= one.position.target_offset:
            continue
        place = TopicPartition(one.target_topic, one.target_topic_id, one.partition)
        last = next(iter(target.batches_at(place, end.high_watermark - 1)), None)
        if (
            last is not None
            and producer.wrote(last.producer_id)
            and last.max_timestamp > recorded_at_ms + allowed_ms
        ):
            found.append((one.target_topic, one.partition))
    return found


def _permissions(state: DeltaLedgerState, clusters: Sequence[SeenCluster]) -> str:
    """A digest of what both clusters allow to whom, as it was recorded last."""
    digest = hashlib.sha256()
    for cluster in clusters:
        if cluster.recorded_id is None:
            continue
        for kind, known in sorted(state.last_permissions(cluster.alias, cluster.recorded_id).items()):
            found = sorted(json.dumps(one.recorded(), sort_keys=True) for one in known.found)
            digest.update(json.dumps([str(kind), str(known.reading), found]).encode())
    return digest.hexdigest()[:16]


def _settings(at: DeltaSnapshot, asked: Asked, target: KafkaAdmin, seen: SeenCluster) -> Sequence[Setting]:
    """What would become of each answer at the target, were it accepted; nothing is known of one that is away."""
    if seen.live_id is None:
        return [Setting(row, None, Outcome.TO_BE_SET) for row in group_answers(at, asked)]
    return computed_sheet(at, target, asked).settings


def _active(target: KafkaAdmin, groups: Collection[str], seen: SeenCluster) -> frozenset[str]:
    if seen.live_id is None:
        return frozenset()
    return frozenset(
        one.group_id
        for one in target.groups()
        if one.group_id in groups and has_members(one.group_state) is not False
    )


def losses_of(
    at: DeltaSnapshot,
    pair: Direction,
    *,
    at_ms: int | None,
    cut: Cut | None = None,
    unrecorded: UnrecordedCopies = NOTHING_READ,
) -> list[dict[str, Any]]:
    """Of each partition what is not at the target; what came since it was read last is estimated up to `at_ms`.

    `at_ms` None: nothing is estimated.
    """
    params: dict[str, Value] = {"from_cluster": pair.source, "to_cluster": pair.target, "at_ms": at_ms}
    return losses(answers.run_query(at, "failover_loss", params).to_pylist(), cut, unrecorded)


def _held_behind_maps(
    flows: Sequence[SeenFlow], target: KafkaAdmin | None, seen: SeenCluster
) -> UnrecordedCopies:
    """What a driver may have copied and not recorded any more: what the target holds behind each map, read now; all of
    it where one may yet write what it has fetched. `target` None: nobody can ask it how it ended then."""
    if seen.live_id is None:
        return NOTHING_READ
    here = [
        (flow, one)
        for flow in flows
        for one in flow.positions
        if seen.topic_ids.get(one.target_topic) == one.target_topic_id
    ]
    places = sorted({(one.target_topic, one.partition) for _, one in here})
    ends = {} if target is None else target.ends(places)
    found: dict[tuple[str, str, int], int] = {}
    for flow, one in here:
        place = flow.config.name, one.source_topic, one.partition
        end = ends.get((one.target_topic, one.partition))
        if flow.may_write(one.source_topic):
            found[place] = ALL_OF_IT
        elif end is not None:
            found[place] = max(end.high_watermark - one.position.target_offset, 0)
    return found


def _commits_read(
    at: DeltaSnapshot, cluster: str, found: Sequence[Mapping[str, Any]], asked_at_ms: int | None
) -> CommitsRead:
    """Of commits alone: a recorder appends ends, and that a cluster does not answer, where it has read none."""
    read_at_ms = at.last_recorded_in(CHECKPOINTS.name, recorder_of(cluster))
    lost = [
        row["read_at_ms"] + int(row["unseen_seconds"] * 1000)
        for row in found
        if row["read_at_ms"] is not None and row["unseen_seconds"] is not None
    ]
    lost_at_ms = max(lost, default=asked_at_ms)
    if read_at_ms is None or lost_at_ms is None:
        return CommitsRead(read_at_ms, None)
    return CommitsRead(read_at_ms, max(lost_at_ms - read_at_ms, 0) / 1000)


def _extras(
    at: DeltaSnapshot, pair: Direction, flows: Sequence[SeenFlow], directions: Directions
) -> Mapping[str, int]:
    """Only where applications left the target for the source before. What lies behind the map is on its way: behind
    its end at the same cut, for by now it may have come further."""
    if not any(directions.promotions(pair.target, pair.source, None).values()):
        return {}
    reached = {
        (row["target_topic"], row["source_partition"]): row["target_end"]
        for flow in flows
        for row in answers.run_query(at, "flow_positions", {"flow": flow.config.name}).to_pylist()
    }
    found: dict[str, int] = defaultdict(int)
    asked: dict[str, Value] = {"from_cluster": pair.source, "to_cluster": pair.target}
    for row in answers.run_query(at, "one_sided_records", asked).to_pylist():
        is_before = row["range_end"] <= reached.get((row["topic"], row["partition"]), 0)
        if row["status"] == "extra" and row["cluster"] == pair.target and is_before:
            found[row["topic"]] += row["offsets"]
    return dict(found)


def reverse_flows(config: MirrorConfig, flows: Sequence[FlowConfig]) -> Mapping[str, str]:
    """By flow its opposite, where it has one that is enabled."""
    enabled = {flow.name for flow in config.enabled_flows}
    return {
        flow.name: flow.opposite for flow in flows if flow.opposite in enabled and flow.opposite is not None
    }


# Planning -----------------------------------------------------------------------------------------
# Plans: made, recorded, and read again.


def make_plan(
    context: Context,
    kind: ChangeoverKind,
    pair: Direction,
    choices: Choices,
    hooks: Mapping[StepName, str],
    *,
    as_of: str | None = None,
    lost_at_ms: int | None = None,
) -> Planned:
    """What carrying it out would do now, or as of a cut; nothing is changed, and nothing recorded."""
    hook = hooks.get(StepName.FENCE)
    seen = see(context, kind, pair, choices, fence_hook=hook, as_of=as_of, lost_at_ms=lost_at_ms)
    return planned(kind, seen, choices, hooks)


def record_plan(context: Context, made: Planned) -> str:
    """The plan as a row of the ledger, so that it can be carried out; returns the operation id of the row."""
    content = PlanRecorded(
        plan_id=made.plan.plan_id,
        plan=made.plan.content(),
        blockers=made.recorded_blockers,
        cut=made.seen.cut,
        forecast=made.forecast,
    )
    return context.record(content)


@dataclass(frozen=True, slots=True)
class PlannedBefore:
    """A plan as the ledger has it, and what was made of it. `planned_by`: operation id of the row that has it last."""

    plan: Plan
    recorded: PlanRecorded
    planned_by: str
    planned_at_ms: int
    applies: Applies
    approvals: Approvals


def read_plan(context: Context, plan_id: str, *, is_begun: bool = False) -> PlannedBefore:
    """Raises `UsageError` for an id that no plan of this ledger has, `PreconditionError` for a plan of somebody else
    under the id; where it `is_begun` that matters no more."""
    at = context.snapshot()
    rows = _rows(at, OperationKind.PLAN, OperationKind.PLAN_APPROVED)
    plans = [row for row in rows if row["kind"] == OperationKind.PLAN]
    plan, recorded = recorded_plan(plans, plan_id, is_begun=is_begun)
    last = last_plan(plans, plan_id)
    approvals = approvals_of(context.config.approvals, last, rows)
    by, at_ms = last["operation_id"], last["recorded_at_ms"]
    return PlannedBefore(plan, recorded, by, at_ms, read_applies(at), approvals)


def read_applies(at: DeltaSnapshot) -> Applies:
    """All operations that have carried out a plan."""
    return Applies.read(at.rows)


NOT_APPLIED = "not applied"
"""How far a plan was carried out that nobody has begun with."""


def plan_rows(context: Context) -> list[dict[str, Any]]:
    """Each plan of the ledger once, as it was recorded last, and how far it was carried out."""
    return [row for row, _ in _recorded_plans(context)]


def _recorded_plans(context: Context) -> list[tuple[dict[str, Any], PlanRecorded]]:
    at = context.snapshot()
    applies = read_applies(at)
    found: dict[str, tuple[dict[str, Any], PlanRecorded]] = {}
    for row in _rows(at, OperationKind.PLAN):
        one = PlanRecorded.of_row(row)
        carried_out = applies.of_plan(one.plan_id)
        values = {
            "plan_id": one.plan_id,
            "kind": one.plan["kind"],
            "from": one.plan["from_cluster"],
            "to": one.plan["to_cluster"],
            "topics": len(one.plan["topics"]),
            "blockers": len(one.blockers),
            "recorded_at_ms": row["recorded_at_ms"],
            "operator": row["operator"],
            "applied": _applied(one, carried_out),
            "operation_id": carried_out[-1].operation_id if carried_out else None,
        }
        found[one.plan_id] = values, one
    return list(found.values())


def plans_to_apply(context: Context) -> list[dict[str, Any]]:
    """Rows of `plan_rows`: the plan whose apply has begun and not ended; else those that nothing stands against, made
    since the last change of direction between their clusters."""
    plans, directions = _recorded_plans(context), context.state.directions()
    begun = [row for row, _ in plans if row["applied"] == ApplyState.OPEN]
    return begun or [
        row
        for row, one in plans
        if row["applied"] == NOT_APPLIED
        and not row["blockers"]
        and one.plan["direction"] == _direction_id(directions, Direction(row["from"], row["to"]))
    ]


def _direction_id(directions: Directions, pair: Direction) -> str | None:
    """The operations that last changed a direction between the two, None: none did."""
    changed = [
        *directions.promotions(pair.source, pair.target, None).values(),
        *directions.promotions(pair.target, pair.source, None).values(),
    ]
    return "; ".join(sorted(filter(None, changed))) or None


def _applied(recorded: PlanRecorded, carried_out: Sequence[Apply]) -> str:
    """How far a plan was carried out; of a row under the id of another plan that it is one."""
    if id_of(recorded.plan) != recorded.plan_id:
        return "another plan under this id"
    return str(carried_out[-1].state) if carried_out else NOT_APPLIED


def _rows(at: DeltaSnapshot, *kinds: str) -> list[dict[str, object]]:
    return at.rows(OPERATIONS.name, [("kind", "in", kinds)])
