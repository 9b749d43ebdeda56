"""A plan from what was seen: its scope and steps, what stands against it, and what it would cost."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.domain.changeover.blockers import Blocker, BlockerCode
from ledger.domain.changeover.plans import Choices, FenceChoice, Plan, PlannedTopic
from ledger.domain.changeover.steps import ChangeoverKind, StepName, steps_of
from ledger.domain.fences.receipts import FenceHow
from ledger.domain.objectives import Figure, Objective, objections
from ledger.domain.operations.promotion.changeovers import RecordedBlocker
from ledger.domain.words.partition_names import by_topic
from ledger.domain.writer_roles import RoleVerdict
from ledger.errors import PreconditionError, UsageError
from ledger.mirror.task.assignments import StopCause
from ledger.operations.changeover.losses import loss_figures, loss_objectives
from ledger.operations.changeover.planned_groups import (
    CHANGELOG,
    Oddities,
    PlacesInScope,
    changelog_blockers,
    group_blockers,
)
from ledger.operations.changeover.seen import Row, Seen, SeenFlow
from ledger.operations.figures.repeats import repeat_figures
from ledger.operations.groups.beside_outputs import OutputsStatus
from ledger.operations.groups.outcomes import repeated_of
from ledger.ports.ledger import FlowPosition


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, why it may not be carried out, and its forecast as of the cut.

    `losses`: a row per partition; `places`: a row per group and partition.
    """

    plan: Plan
    blockers: tuple[Blocker, ...]
    losses: tuple[Row, ...]
    places: tuple[Row, ...]
    cut: str

    @property
    def recorded_blockers(self) -> tuple[RecordedBlocker, ...]:
        """As the ledger has them."""
        return tuple(
            RecordedBlocker(code=str(one.code), words=one.words, advice=one.advice) for one in self.blockers
        )

    @property
    def forecast(self) -> dict[str, Any]:
        """Sums of what would be lost and read again; None where a part is unknown: unknown is not 0."""
        return {
            **loss_figures(self.losses),
            "repeated": repeated_of(self.places),
            "groups": len({row["group_id"] for row in self.places} - {None}),
            "groups_without_place": len(
                {row["group_id"] for row in self.places if row["target_offset"] is None}
            ),
            "groups_at_earlier_commits": len(
                {row["group_id"] for row in self.places if row.get("outputs") == OutputsStatus.EARLIER_COMMIT}
            ),
        }


def planned(
    kind: ChangeoverKind, seen: Seen, choices: Choices, hooks: Mapping[StepName, str], oddities: Oddities
) -> Planned:
    """The plan.

    Raises where there is nothing to plan about (no flow, no topic, a cluster that nobody recorded), and for a hook that
    carrying it out would never run.
    """
    flows = _flows(seen, choices)
    topics = _topics(flows, choices)
    in_scope = {topic.source_topic for topic in topics}
    scope = PlacesInScope.of(topics, choices)
    places = scope.among(seen.places)
    losses = [row for row in seen.losses if row["source_topic"] in in_scope]
    moving = scope.moving(seen.places)
    blockers = tuple(sorted(set(_blockers(kind, seen, choices, flows, topics, moving, losses, oddities))))
    steps = steps_of(kind, is_promoted=all(flow.is_promotable for flow in flows))
    _require_hooks_that_run(hooks, steps, choices.fence)
    plan = Plan(
        kind=kind,
        from_cluster=seen.source.alias,
        from_cluster_id=_known_id(seen.source.alias, seen.source.live_id or seen.source.recorded_id),
        to_cluster=seen.target.alias,
        to_cluster_id=_known_id(seen.target.alias, seen.target.live_id or seen.target.recorded_id),
        topics=topics,
        choices=choices,
        hooks=hooks,
        direction=seen.direction_id,
        permissions=seen.permissions,
        steps=steps,
        blockers=tuple(sorted({blocker.code for blocker in blockers})),
    )
    return Planned(plan, blockers, tuple(losses), tuple(places), seen.cut)


def _require_hooks_that_run(
    hooks: Mapping[StepName, str], steps: Collection[StepName], fence: FenceChoice
) -> None:
    if foreign := sorted(hooks.keys() - set(steps)):
        raise UsageError(
            f"--hook {', '.join(foreign)}: this plan has no such step; its steps are {', '.join(steps)}; nothing was "
            "planned"
        )
    if StepName.FENCE in hooks and fence is not FenceChoice.HOOK:
        raise UsageError(
            f"--hook fence is the fence itself, with --fence hook; with --fence {fence} it would never run; nothing "
            "was planned"
        )


def _flows(seen: Seen, choices: Choices) -> list[SeenFlow]:
    """The flows that copy what is in scope; flows of both kinds at once have no one order of steps."""
    found = [flow for flow in seen.flows if choices.topics is None or _of_flow(flow, choices.topics)]
    if not found:
        raise UsageError(
            f"no flow of the configuration copies from {seen.source.alias} to {seen.target.alias}"
            f"{'' if choices.topics is None else ' what --topic names'}; nothing was planned"
        )
    if len({flow.is_promotable for flow in found}) > 1:
        kept = sorted(flow.config.name for flow in found if flow.is_promotable)
        raise UsageError(
            f"{', '.join(kept)} can be promoted and the other flows between the two cannot: plan for the topics of "
            "each kind apart (--topic); nothing was planned"
        )
    return found


def _of_flow(flow: SeenFlow, topics: Collection[str]) -> bool:
    return any(position.target_topic in topics for position in flow.positions)


def _topics(flows: Sequence[SeenFlow], choices: Choices) -> tuple[PlannedTopic, ...]:
    found = {
        PlannedTopic(
            flow=flow.config.name,
            source_topic=position.source_topic,
            source_topic_id=position.source_topic_id,
            topic=position.target_topic,
            topic_id=position.target_topic_id,
        )
        for flow in flows
        for position in _current(flow)
        if choices.topics is None or position.target_topic in choices.topics
    }
    if choices.topics is not None and (missing := set(choices.topics) - {one.topic for one in found}):
        raise UsageError(f"no flow has copied anything to {', '.join(sorted(missing))}; nothing was planned")
    if not found:
        raise PreconditionError("the flows have copied nothing yet: there is nothing to plan from")
    return tuple(sorted(found, key=lambda one: (one.flow, one.source_topic, one.topic)))


def _current(flow: SeenFlow) -> list[FlowPosition]:
    """Positions of incarnations that were copied last; those of former ones stay in the ledger."""
    return [one for one in flow.positions if flow.incarnations.get(one.source_topic) == one.source_topic_id]


def _known_id(alias: str, cluster_id: str | None) -> str:
    if cluster_id is None:
        raise PreconditionError(
            f"{alias} does not answer, and nobody has recorded which cluster it is; nothing was planned"
        )
    return cluster_id


# What stands against it ---------------------------------------------------------------------------


def _blockers(
    kind: ChangeoverKind,
    seen: Seen,
    choices: Choices,
    flows: Sequence[SeenFlow],
    topics: Sequence[PlannedTopic],
    places: Sequence[Row],
    losses: Sequence[Row],
    oddities: Oddities,
) -> Iterator[Blocker]:
    yield from _of_clusters(kind, seen, choices)
    yield from _of_topics(kind, seen, topics)
    yield from _of_directions(seen, choices, topics)
    for flow in flows:
        yield from _of_flow_itself(kind, flow, choices, topics)
    yield from group_blockers(kind, seen, choices, places, oddities)
    if kind is ChangeoverKind.FAILOVER and CHANGELOG not in choices.accepted:
        yield from changelog_blockers(topics, places)
    yield from _of_fences(seen, choices, flows)
    yield from _of_target_fences(seen, flows, topics)
    yield from _of_the_way_back(kind, seen, choices, flows)
    if not choices.despite_objectives:
        for _, words in objections(seen.objectives, _figures(kind, seen, losses, places)):
            yield Blocker(BlockerCode.OBJECTIVE, words)


def _of_fences(seen: Seen, choices: Choices, flows: Sequence[SeenFlow]) -> Iterator[Blocker]:
    """What keeps applications from the source, and the mirror from the target."""
    source, target = seen.source.alias, seen.target.alias
    if seen.fence_refusal is not None:
        yield Blocker(BlockerCode.FENCE, seen.fence_refusal)
    if choices.fence is FenceChoice.NONE and choices.unproven is None:
        yield Blocker(BlockerCode.FENCE, f"{source} is not fenced, and nobody says why that is enough")
    is_let_be = choices.abort_marker or choices.accept_unproven_shut_out
    if seen.shut_out_problem is not None and not is_let_be and all(flow.is_promotable for flow in flows):
        yield Blocker(
            BlockerCode.MIRROR_NOT_SHUT_OUT,
            f"nothing but the ledger would keep the mirror from {target}: {seen.shut_out_problem}",
        )


def _of_target_fences(
    seen: Seen, flows: Sequence[SeenFlow], topics: Sequence[PlannedTopic]
) -> Iterator[Blocker]:
    """A cluster that was left before is fenced still: what a promoted one was closed with is lifted when applications
    get their permissions there; what a hook has stopped, and where nothing is promoted, people open."""
    is_lifted = all(flow.is_promotable for flow in flows)
    names = {name for one in topics for name in (one.topic, one.source_topic)}
    for fence in seen.target_fences:
        if fence.topic in names and not (is_lifted and fence.how != FenceHow.HOOK):
            yield Blocker(
                BlockerCode.TARGET_FENCED,
                f"{fence.topic} of {seen.target.alias} is fenced ({fence.how}): applications could not write there",
            )


def _of_the_way_back(
    kind: ChangeoverKind, seen: Seen, choices: Choices, flows: Sequence[SeenFlow]
) -> Iterator[Blocker]:
    if kind is not ChangeoverKind.SWITCHOVER or not choices.reverse:
        return
    for flow in flows:
        if flow.is_promotable and flow.config.name not in seen.reverse_flows:
            yield Blocker(
                BlockerCode.NO_REVERSE_FLOW,
                f"no flow copies back what {flow.config.name} copies: it has no opposite",
            )


def _figures(
    kind: ChangeoverKind, seen: Seen, losses: Sequence[Row], places: Sequence[Row]
) -> Iterator[Figure]:
    """What objectives are compared with: a switchover waits for what is behind, a failover loses it."""
    way = f"{seen.source.alias} to {seen.target.alias}"
    if kind is ChangeoverKind.FAILOVER:
        yield from loss_objectives(losses, of=way)
    else:
        yield Figure(Objective.MAX_LAG_RECORDS, loss_figures(losses)["records_lost"], way)
        yield Figure(Objective.MAX_LAG_SECONDS, loss_figures(losses)["seconds_lost"], way)
    yield Figure(Objective.MAX_DOWNTIME_SECONDS, seen.downtimes.get(kind), f"the last {kind} from {way}")
    yield from repeat_figures(places)


def _of_clusters(kind: ChangeoverKind, seen: Seen, choices: Choices) -> Iterator[Blocker]:
    for cluster in (seen.source, seen.target):
        if cluster.identity_problem is not None:
            yield Blocker(BlockerCode.OTHER_CLUSTER, cluster.identity_problem)
    if seen.target.live_id is None:
        yield Blocker(
            BlockerCode.TARGET_UNREACHABLE, f"{seen.target.alias} does not answer: {seen.target.trouble}"
        )
    is_planned = kind is ChangeoverKind.SWITCHOVER
    if is_planned and seen.source.live_id is None:
        yield Blocker(
            BlockerCode.SOURCE_UNREACHABLE, f"{seen.source.alias} does not answer: {seen.source.trouble}"
        )
    if not is_planned and seen.source.live_id is not None and not choices.source_given_up:
        yield Blocker(
            BlockerCode.SOURCE_ANSWERS,
            f"{seen.source.alias} answers: records that are written there now would stay behind",
        )


def _of_topics(kind: ChangeoverKind, seen: Seen, topics: Sequence[PlannedTopic]) -> Iterator[Blocker]:
    for one in topics:
        live = seen.target.topic_ids.get(one.topic)
        if seen.target.live_id is not None and live != one.topic_id:
            is_now = "is not there" if live is None else f"has the id {live} now"
            yield Blocker(
                BlockerCode.OTHER_TOPIC,
                f"{one.topic} of {seen.target.alias} {is_now}; {one.flow} wrote to {one.topic_id}",
            )
        origin = seen.source.topic_ids.get(one.source_topic)
        if (
            kind is ChangeoverKind.SWITCHOVER
            and seen.source.live_id is not None
            and origin != one.source_topic_id
        ):
            is_now = "is not there" if origin is None else f"has the id {origin} now"
            yield Blocker(
                BlockerCode.OTHER_TOPIC,
                f"{one.source_topic} of {seen.source.alias} {is_now}; {one.flow} copied {one.source_topic_id}",
            )


def _of_directions(seen: Seen, choices: Choices, topics: Sequence[PlannedTopic]) -> Iterator[Blocker]:
    source, target = seen.source.alias, seen.target.alias
    names = [one.topic for one in topics] if choices.topics is None else choices.topics
    for topic, made_by in seen.directions.promotions(source, target, names).items():
        if made_by is not None:
            yield Blocker(BlockerCode.PROMOTED_ALREADY, f"{topic} of {target} was promoted {made_by}")
    for topic, made_by in seen.directions.promotions(target, source, names).items():
        if made_by is not None:
            yield Blocker(BlockerCode.OPPOSITE_PROMOTED, f"{topic} of {source} was promoted {made_by}")


def _of_flow_itself(
    kind: ChangeoverKind, flow: SeenFlow, choices: Choices, topics: Sequence[PlannedTopic]
) -> Iterator[Blocker]:
    name = flow.config.name
    if choices.topics is None and flow.unmirrored:
        yield Blocker(
            BlockerCode.NOT_MIRRORED, f"{name} has copied nothing of {', '.join(sorted(flow.unmirrored))} yet"
        )
    ids = {one.source_topic_id: one.source_topic for one in topics if one.flow == name}
    stopped = {
        (ids[topic_id], partition): stop.cause
        for (topic_id, partition), stop in flow.stopped.items()
        if topic_id in ids and stop.cause != StopCause.PROMOTED
    }
    if stopped:
        causes = ", ".join(sorted({str(cause) for cause in stopped.values()}))
        yield Blocker(BlockerCode.PARTITION_STOPPED, f"{name} has stopped at {by_topic(stopped)}: {causes}")
    is_at_work = flow.driver is RoleVerdict.IN_USE
    if kind is ChangeoverKind.SWITCHOVER and not is_at_work:
        yield Blocker(
            BlockerCode.DRIVER_NOT_RUNNING,
            f"no driver of {name} is at work ({flow.driver.replace('_', ' ')})",
        )
    if flow.unrecorded:
        yield Blocker(
            BlockerCode.UNRECORDED_COPIES,
            f"{by_topic(flow.unrecorded)} of the target has more records of {name} than the ledger knows of",
        )
