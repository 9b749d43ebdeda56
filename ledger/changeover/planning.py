"""A plan from what was seen: its scope and steps, what stands against it, and what it would cost."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from ledger.changeover.decisions import DEFICITS_OF_KEYS, EXTRAS_OF_KEYS
from ledger.changeover.losses import forecast_downtime, loss_figures, loss_objectives
from ledger.changeover.plans import (
    Blocker,
    BlockerCode,
    ChangeoverKind,
    Choices,
    FenceChoice,
    Plan,
    PlannedTopic,
    StepName,
    advice_for,
    passing,
    steps_of,
)
from ledger.changeover.scope import NOT_COPIED_ANY_MORE, Scope, Seen, SeenCluster, SeenFlow, SeenReturn
from ledger.config.values import Figure, Objective, objections
from ledger.errors import PreconditionError, UsageError
from ledger.facts.changeovers import RecordedBlocker
from ledger.facts.roles import RoleVerdict
from ledger.facts.syncs import FlowPosition
from ledger.facts.tables import Row
from ledger.mirror.assignment import StopCause
from ledger.offsets.setting import ADVICE, Outcome, OutputsStatus, oddities, place_of
from ledger.offsets.sheets import CommitsRead, repeat_figures, repeat_forecast, unread_words
from ledger.offsets.statuses import TranslationStatus
from ledger.roles import fresh_seconds
from ledger.words import by_topic, counted, duration, of_topic

# Planned groups -----------------------------------------------------------------------------------
# Groups that a plan would move: what stands against it because of them.


CHANGELOG = "changelog"
"""What is accepted by name of state that does not belong to the commits."""
_AS_IT_HAS_TO_BE: Mapping[ChangeoverKind, Collection[str]] = {
    ChangeoverKind.SWITCHOVER: (TranslationStatus.AHEAD,),
    ChangeoverKind.FAILOVER: (TranslationStatus.AHEAD,),
    ChangeoverKind.FAILBACK: (TranslationStatus.AHEAD,),
}
"""What a group at work at the source has read and the target lacks: a switchover copies it before the group moves, and
its step `move_groups` accepts neither of itself. A failover loses it, which the forecast says."""


def accepted_when_moved(kind: ChangeoverKind, choices: Choices) -> tuple[str, ...]:
    """Statuses with which groups are set: those that were accepted by name, and what no failover is without."""
    of_itself = _AS_IT_HAS_TO_BE[kind] if kind is ChangeoverKind.FAILOVER else ()
    return tuple(dict.fromkeys((*choices.accepted, *map(str, of_itself))))


def group_blockers(
    kind: ChangeoverKind, seen: Seen, choices: Choices, places: Sequence[Row]
) -> Iterator[Blocker]:
    """No place, or one that is not certain; what the target has against it; groups of which nobody knows.

    `places`: answers about groups that move (`Scope.moving`).
    """
    accepted = {*choices.accepted, *_AS_IT_HAS_TO_BE[kind]}
    groups = {row["group_id"] for row in places} - {None}
    if choices.groups is not None and (unknown := set(choices.groups) - groups):
        yield Blocker(
            BlockerCode.GROUP_WITHOUT_PLACE,
            f"the ledger has no committed offset of {', '.join(map(repr, sorted(unknown)))} at {seen.source.alias}",
        )
    yield from _of_nothing_copied(seen, places)
    yield from _of_places(seen, places, choices.accepted, accepted)
    if at_work := sorted(groups & seen.active):
        yield Blocker(
            BlockerCode.GROUP_ACTIVE_AT_TARGET,
            f"{counted(len(at_work), 'group')} with members at {seen.target.alias}: "
            f"{', '.join(map(repr, at_work))}",
        )
    unread_groups = {
        group: status
        for group, status in seen.unread_groups.items()
        if status not in choices.accepted and (choices.groups is None or group in choices.groups)
    }
    for words in unread_words(unread_groups):
        yield Blocker(BlockerCode.GROUPS_UNKNOWN, words.replace("_", " "))


def _of_places(
    seen: Seen, places: Sequence[Row], chosen: Collection[str], accepted: Collection[str]
) -> Iterator[Blocker]:
    """One of each group, topic and reason, with the partitions. `chosen`: what was accepted by name, `accepted`: what
    is accepted of a group that has a place."""
    found: dict[tuple[BlockerCode, str, str, str], tuple[Blocker, list[int]]] = {}
    for row in places:
        if row["group_id"] is None or row["status"] == NOT_COPIED_ANY_MORE:
            continue
        group, code, side = str(row["group_id"]), BlockerCode.GROUP_WITHOUT_PLACE, "source"
        choice: dict[str, Any]
        if row["target_offset"] is None:
            if row["status"] in chosen:
                continue
            cause = words = str(row["status"])
            choice = {"accepted": (cause,)}
        elif left := sorted(oddities(row).difference(accepted)):
            cause = words = f"{', '.join(left)} is not accepted"
            choice = {"accepted": tuple(left)}
        elif (hindrance := seen.hindered.get(place_of(row))) is not None:
            code, side = BlockerCode.GROUP_HINDERED_AT_TARGET, "target"
            cause, words = str(hindrance), f"{hindrance}, {ADVICE[hindrance]}"
            choice = {"overwrite_newer": True} if hindrance is Outcome.NEWER else {}
        else:
            continue
        key = code, group, str(row[f"{side}_topic"]), cause
        if key not in found:
            found[key] = Blocker(code, words, cause, group, choice), []
        found[key][1].append(row[f"{side}_partition"])
    for (_, group, topic, _), (one, partitions) in found.items():
        yield replace(one, words=f"{group} at {of_topic(topic, partitions)}: {one.words}")


def _of_nothing_copied(seen: Seen, places: Sequence[Row]) -> Iterator[Blocker]:
    """Of topics that groups read there and that reach the target by no flow of the pair, where the ledger has a place
    for them all the same: through other clusters, or by a flow that is no more."""
    readers: dict[tuple[str, str], set[str]] = {}
    for row in places:
        if row["status"] == NOT_COPIED_ANY_MORE and row["group_id"] is not None:
            readers.setdefault((row["source_topic"], row["target_topic"]), set()).add(row["group_id"])
    reported = {(one.source_topic, one.topic) for one in seen.not_copied}
    for (source_topic, topic), groups in sorted(readers.items()):
        if (source_topic, topic) not in reported:
            yield Blocker(
                BlockerCode.NOT_COPIED_ANY_MORE,
                f"no enabled flow copies {source_topic} of {seen.source.alias} to {topic} of {seen.target.alias}, "
                f"where {counted(len(groups), 'group')} would continue: {', '.join(map(repr, sorted(groups)))}",
                chosen={"left_out": (topic,)},
            )


def changelog_blockers(topics: Sequence[PlannedTopic], places: Sequence[Row]) -> Iterator[Blocker]:
    """A Kafka Streams application restores its state from changelogs, named after its group, and reads on from its
    commits. Copied up to different instants they are no state that it ever had; only a drained source has that."""
    groups = sorted({row["group_id"] for row in places} - {None})
    for one in topics:
        owner = next((group for group in groups if one.source_topic.startswith(f"{group}-")), None)
        if owner is not None and one.source_topic.endswith("-changelog"):
            yield Blocker(
                BlockerCode.CHANGELOG,
                f"{one.source_topic} is state of {owner!r}, and was not copied up to the instant of its commits",
                chosen={"accepted": (CHANGELOG,)},
            )


# Planning -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """A plan, why it may not be carried out, and its forecast as of the cut of what was seen.

    `losses`: a row per partition; `places`: a row per group and partition; `moving`: those of groups that move.
    """

    plan: Plan
    blockers: tuple[Blocker, ...]
    losses: tuple[Row, ...]
    places: tuple[Row, ...]
    moving: tuple[Row, ...]
    seen: Seen
    scope: Scope

    @cached_property
    def recorded_blockers(self) -> tuple[RecordedBlocker, ...]:
        """As the ledger has them."""
        typed = {
            code: passing(self.plan, found) for code, found in groupby(self.blockers, lambda one: one.code)
        }
        return tuple(
            RecordedBlocker(
                code=str(one.code),
                words=one.words,
                advice=advice_for(one, self.plan, typed[one.code]),
                cause=one.cause,
            )
            for one in self.blockers
        )

    @staticmethod
    def _returned(returned: SeenReturn) -> dict[str, Any]:
        """Of a failback what is to come back, and what stays or has to be decided."""
        return {
            "is_open": returned.is_open,
            "offsets_to_come": returned.behind,
            "bytes_to_come": returned.bytes,
            "extras": [one.facts for one in returned.extras],
            "undecided": list(returned.undecided),
            "deficits": [one.facts for one in returned.deficits],
            "recreated": sorted(returned.recreated),
            "expiring": list(returned.expiring),
            "repeats": {group: dict(causes) for group, causes in returned.repeats.items()},
        }

    @cached_property
    def forecast(self) -> dict[str, Any]:
        """Sums of what would be lost and read again; None where a part is unknown: unknown is not 0.

        And for how long applications would have no cluster to write to.
        """
        kind, seen = self.plan.kind, self.seen
        groups = len({row["group_id"] for row in self.places} - {None})
        step_seconds = seen.step_seconds.get(kind, {})
        moving = {row["group_id"] for row in self.moving} - {None}
        pending = sorted(seen.pending & moving)
        members = seen.static_members
        static = members and {group: list(found) for group, found in members.items() if group in moving}
        without_place = {
            name: len(found) for name, found in self.scope.without_place(seen.places, moving).items()
        }
        downtime = forecast_downtime(
            kind,
            self.plan.steps,
            self.plan.choices.fence,
            partitions=len(self.losses),
            groups=groups,
            measured=step_seconds,
            waits=self._waits(),
        )
        return {
            **({"returned": self._returned(seen.returned)} if seen.returned is not None else {}),
            **loss_figures(self.losses),
            **repeat_forecast(self.places, _commits_that_count(kind, seen)),
            "downtime": downtime,
            "not_followed": None
            if seen.not_followed is None
            else [one.figures(seen.seen_at_ms) for one in seen.not_followed],
            "groups": groups,
            "groups_without_place": len(
                {row["group_id"] for row in self.places if row["target_offset"] is None}
            ),
            "groups_ahead": len(
                {row["group_id"] for row in self.places if row["status"] == TranslationStatus.AHEAD}
            ),
            "groups_at_earlier_commits": len(
                {row["group_id"] for row in self.places if row.get("outputs") == OutputsStatus.EARLIER_COMMIT}
            ),
            **({"groups_in_transactions": pending} if pending else {}),
            **({"without_place": without_place} if without_place else {}),
            **({"static_members": static} if static != {} else {}),
            **({"shared_transactions": shared} if (shared := self._shared_transactions(seen)) != {} else {}),
        }

    def _waits(self) -> dict[StepName, float]:
        """By step for how many seconds it watches: commits of groups without members, that are not at the end, before
        they are set, and behind that where somebody may commit at the target."""
        seen, steps = self.seen, self.plan.steps
        unread = {row["group_id"] for row in self.moving if row["status"] != TranslationStatus.AT_END}
        before = StepName.STOP_GROUPS in steps and not seen.memberless.isdisjoint(unread)
        watch_s = self.plan.choices.watch_seconds * (before + seen.used)
        return {StepName.FENCE: seen.fence_quiet_s, StepName.MOVE_GROUPS: watch_s}

    def _shared_transactions(self, seen: Seen) -> dict[str, list[str]] | None:
        """By topic that stays, those that move and that a producer writes to in transactions as well; None: unknown."""
        if seen.transactions is None:
            return None
        moving = {one.source_topic for one in self.scope.topics}
        shared = {
            stays: sorted(name for name in moving if ids & seen.transactions.get(name, frozenset()))
            for stays, ids in sorted(seen.transactions.items())
            if stays not in moving
        }
        return {stays: names for stays, names in shared.items() if names}


def planned(kind: ChangeoverKind, seen: Seen, choices: Choices, hooks: Mapping[StepName, str]) -> Planned:
    """The plan.

    Raises where there is nothing to plan about (no flow, no topic, a cluster that nobody recorded), and for a hook that
    carrying it out would never run.
    """
    if seen.returned is None:
        _require_nothing_to_decide(kind, seen, choices)
        _require_left_out_is_known(seen, choices)
        flows = _flows(seen, choices)
        topics = _topics(seen, flows, choices)
    else:
        topics = _returning(kind, seen.returned, seen, choices)
        flows = [flow for flow in seen.flows if flow.config.name in {one.flow for one in topics}]
    scope = Scope(topics=topics, choices=choices, elsewhere=seen.elsewhere, records_group=seen.records_group)
    places = scope.among(seen.places)
    losses = scope.losses(seen.losses)
    moving = scope.who_move(places)
    blockers = tuple(sorted(set(_blockers(kind, seen, choices, flows, topics, moving, losses))))
    steps = steps_of(kind, is_promoted=all(flow.is_promotable for flow in flows), stays=choices.stays)
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
        permissions=seen.permissions if StepName.START_APPLICATIONS in steps else "",
        steps=steps,
        blockers=tuple(sorted({blocker.code for blocker in blockers})),
    )
    return Planned(plan, blockers, tuple(losses), tuple(places), tuple(moving), seen, scope)


def _require_nothing_to_decide(kind: ChangeoverKind, seen: Seen, choices: Choices) -> None:
    """Of a failback between sides that both have flows of their own: no topic is written to at one side alone."""
    if kind is ChangeoverKind.FAILBACK and (choices.stays or choices.extras or choices.deficits):
        raise UsageError(
            f"no flow from {seen.source.alias} to {seen.target.alias} has an opposite: both directions continue, and "
            f"what {seen.target.alias} has comes to {seen.source.alias} by itself. Only groups move: without --extras, "
            "--deficits and --stop-before; nothing was planned"
        )


def _returning(
    kind: ChangeoverKind, returned: SeenReturn, seen: Seen, choices: Choices
) -> tuple[PlannedTopic, ...]:
    """What comes back; raises `UsageError` where nothing of what is asked was promoted."""
    source, target = seen.source.alias, seen.target.alias
    missing = sorted({*(choices.topics or ())} - {one.topic for one in returned.topics})
    if not missing and returned.topics:
        return returned.topics
    names = ", ".join(missing) or "a topic"
    if kind is ChangeoverKind.PROTECT:
        raise UsageError(f"no enabled flow copies {names} of {source} to {target}; nothing was planned")
    raise UsageError(
        f"no flow has copied {names} from {target} to {source} that has an opposite which is enabled: there is nothing "
        f"to come back to {target}; nothing was planned"
    )


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
    found = [flow for flow in seen.flows if _is_of(flow, choices)]
    if not found:
        what = (
            " what --topic names" if choices.topics else " but what is left out" if choices.left_out else ""
        )
        raise UsageError(
            f"no flow of the configuration that is enabled copies from {seen.source.alias} to {seen.target.alias}"
            f"{what}; nothing was planned"
        )
    if len({flow.is_promotable for flow in found}) > 1:
        kept = sorted(flow.config.name for flow in found if flow.is_promotable)
        raise UsageError(
            f"{', '.join(kept)} can be promoted and the other flows between the two cannot: plan for the topics of "
            "each kind apart (--topic); nothing was planned"
        )
    return found


def _is_of(flow: SeenFlow, choices: Choices) -> bool:
    """Whether a flow copies any of the topics; one that has copied nothing is of none that are named."""
    if choices.topics is None and not (flow.positions and choices.left_out):
        return True
    return any(_is_chosen(position.target_topic, choices) for position in flow.positions)


def _is_chosen(topic: str, choices: Choices) -> bool:
    return topic not in choices.left_out and (choices.topics is None or topic in choices.topics)


def _require_left_out_is_known(seen: Seen, choices: Choices) -> None:
    if not choices.left_out:
        return
    if choices.topics is not None:
        raise UsageError("--leave-out says what of all topics stays, --topic which move; nothing was planned")
    known = {one.topic for one in seen.not_copied}
    known |= {str(row["target_topic"] or row["source_topic"]) for row in seen.places}
    for flow in seen.flows:
        known |= {one.target_topic for one in flow.positions}
        known |= {flow.config.naming.target_name(name) for name in flow.unmirrored}
    if strange := sorted(set(choices.left_out) - known):
        raise UsageError(
            f"--leave-out {', '.join(strange)}: nothing of that name would move to {seen.target.alias}; nothing was "
            "planned"
        )


def _topics(seen: Seen, flows: Sequence[SeenFlow], choices: Choices) -> tuple[PlannedTopic, ...]:
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
        if _is_chosen(position.target_topic, choices)
    }
    missing = set(choices.topics or ()) - {one.topic for one in found}
    if left := sorted(missing & {one.topic for one in seen.not_copied}):
        raise UsageError(
            f"no enabled flow copies to {', '.join(left)} any more: let one copy it again, or plan without it; nothing "
            "was planned"
        )
    if missing:
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
) -> Iterator[Blocker]:
    yield from _of_clusters(kind, seen, choices)
    yield from _of_topics(kind, seen, topics)
    if kind is ChangeoverKind.PROTECT:
        return
    if seen.returned is not None:
        yield from _of_directions(kind, seen, choices, topics)
        yield from _of_return(seen.returned, seen, choices)
        if not choices.despite_objectives:
            yield from _of_repeats(seen.returned.repeats, seen)
        if not choices.stays:
            yield from _of_fences(seen, choices, flows)
            yield from _of_the_way_back(kind, seen, choices, flows)
        return
    yield from _of_what_nobody_copies(seen, choices)
    yield from _of_directions(kind, seen, choices, topics)
    for flow in flows:
        yield from _of_flow_itself(kind, flow, choices, topics)
    yield from group_blockers(kind, seen, choices, places)
    if kind is ChangeoverKind.FAILOVER and CHANGELOG not in choices.accepted:
        yield from changelog_blockers(topics, places)
    yield from _of_fences(seen, choices, flows)
    yield from _of_target_fences(seen, flows, topics)
    yield from _of_the_way_back(kind, seen, choices, flows)
    if not choices.despite_objectives:
        for why, words in objections(seen.objectives, _figures(kind, seen, losses, places)):
            yield Blocker(BlockerCode.OBJECTIVE, words, why, chosen={"despite_objectives": True})


def _of_return(returned: SeenReturn, seen: Seen, choices: Choices) -> Iterator[Blocker]:
    """Before a failback: what stands against opening the way back. What would stand against the switch that follows is
    asked when all has come back, before anybody stops an application."""
    source, target = seen.source.alias, seen.target.alias
    is_some = len(returned.not_promoted) < len(returned.topics)
    for topic in returned.not_promoted:
        yield Blocker(
            BlockerCode.NOT_PROMOTED,
            f"{topic} of {source} is not promoted over {target}: applications have not left {target} for it",
            chosen={"left_out": (topic,)} if is_some else {"kind": ChangeoverKind.SWITCHOVER},
        )
    for one in returned.extras:
        if (topic := one.partition.topic) in returned.undecided:
            why = f"; {EXTRAS_OF_KEYS}" if topic in returned.compacted else ""
            yield Blocker(
                BlockerCode.EXTRAS,
                f"{target} alone has what would lie in front of all that comes back: {one.words}{why}",
                cause=topic,
                chosen={"extras": (f"{topic}=keep" if choices.extras else "keep",)},
            )
    for lack in returned.deficits:
        if (topic := lack.pair.source.topic) in returned.not_returned:
            why = f"; {DEFICITS_OF_KEYS}" if topic in returned.compacted else ""
            chosen = {"deficits": (f"{topic}={'keep' if why else 'return'}",)}
            yield Blocker(BlockerCode.DEFICITS, f"{target}: {lack.words}{why}", cause=topic, chosen=chosen)
    yield from _of_deletion(returned, seen, choices)
    if returned.not_fenced and choices.fence in (FenceChoice.HOOK, FenceChoice.NONE):
        names = ", ".join(returned.not_fenced)
        yield Blocker(
            BlockerCode.NOT_FENCED,
            f"{names} of {target} is not fenced, or that is not proved: applications that come back with it would "
            "write there",
        )
    if returned.at_work:
        yield Blocker(
            BlockerCode.GROUP_ACTIVE_AT_TARGET,
            f"{counted(len(returned.at_work), 'group')} with members at {target}, which would read what comes back: "
            f"{', '.join(map(repr, returned.at_work))}",
        )
    if returned.fence_refusal is not None:
        words = f"{target} could not be fenced: {returned.fence_refusal}"
        yield Blocker(BlockerCode.FENCE, words, chosen=_fenced(seen.source))


def _of_deletion(returned: SeenReturn, seen: Seen, choices: Choices) -> Iterator[Blocker]:
    """What would be lost with a topic that is created again, and that nobody has given up by name; and who may not."""
    source, target = seen.source.alias, seen.target.alias
    for lost in returned.lost_with_topics:
        if (topic := lost.partition.topic) not in choices.given_up:
            yield Blocker(
                BlockerCode.LOST_WITH_TOPIC,
                f"{source} has not, or not any more, what {topic} of {target} holds beside its extras: {lost.words}",
                cause=topic,
                chosen={"extras": (f"{topic}=keep",)},
            )
    for right in returned.not_allowed:
        yield Blocker(
            BlockerCode.NOT_ALLOWED,
            f"the administrator of {target} has no right that is known: {right}",
            chosen={"extras": tuple(f"{topic}=keep" for topic in returned.recreated)},
        )


def _of_repeats(repeats: Mapping[str, Mapping[str, int | None]], seen: Seen) -> Iterator[Blocker]:
    for why, words in objections(seen.objectives, repeats_by_cause(repeats)):
        yield Blocker(BlockerCode.OBJECTIVE, words, why, chosen={"despite_objectives": True})


def repeats_by_cause(repeats: Mapping[str, Mapping[str, int | None]]) -> Iterator[Figure]:
    """Of each group the sum over all causes, None where one is unknown."""
    for group, causes in sorted(repeats.items()):
        known = [count for count in causes.values() if count is not None]
        total = sum(known) if len(known) == len(causes) else None
        yield Figure(Objective.MAX_REPEATS_PER_GROUP, total, f"group {group!r}")


def _fenced(source: SeenCluster) -> Mapping[str, Any]:
    """What is chosen where rules do not do."""
    if source.live_id is None:
        return {"fence": FenceChoice.NONE, "unproven": f"{source.alias} does not answer"}
    return {"fence": FenceChoice.SHUT, "producers_stopped": True}


def _of_fences(seen: Seen, choices: Choices, flows: Sequence[SeenFlow]) -> Iterator[Blocker]:
    """What keeps applications from the source, and the mirror from the target."""
    source, target = seen.source.alias, seen.target.alias
    if seen.fence_refusal is not None:
        yield Blocker(BlockerCode.FENCE, seen.fence_refusal, chosen=_fenced(seen.source))
    if choices.fence is FenceChoice.NONE and choices.unproven is None:
        words = f"{source} is not fenced, and nobody says why that is enough"
        yield Blocker(BlockerCode.FENCE, words, chosen=_fenced(seen.source))
    is_let_be = choices.abort_marker or choices.accept_unproven_shut_out
    if seen.shut_out_problem is not None and not is_let_be and all(flow.is_promotable for flow in flows):
        yield Blocker(
            BlockerCode.MIRROR_NOT_SHUT_OUT,
            f"nothing but the ledger would keep the mirror from {target}: {seen.shut_out_problem}",
            chosen={"accept_unproven_shut_out": True},
        )


def _of_target_fences(
    seen: Seen, flows: Sequence[SeenFlow], topics: Sequence[PlannedTopic]
) -> Iterator[Blocker]:
    """A cluster that was left before is fenced still: of a promoted one that is lifted when applications get their
    permissions there, and what a hook has stopped is said to be started; where nothing is promoted, people open it."""
    is_lifted = all(flow.is_promotable for flow in flows)
    names = {name for one in topics for name in (one.topic, one.source_topic)}
    for fence in seen.target_fences:
        if fence.topic in names and not is_lifted:
            yield Blocker(
                BlockerCode.TARGET_FENCED,
                f"{fence.topic} of {seen.target.alias} is fenced ({fence.how}): applications could not write there",
            )


def _of_the_way_back(
    kind: ChangeoverKind, seen: Seen, choices: Choices, flows: Sequence[SeenFlow]
) -> Iterator[Blocker]:
    if not kind.is_planned or not choices.reverse:
        return
    for flow in flows:
        if flow.is_promotable and flow.config.name not in seen.reverse_flows:
            yield Blocker(
                BlockerCode.NO_REVERSE_FLOW,
                f"no flow copies back what {flow.config.name} copies: it has no opposite",
                chosen={"reverse": False},
            )


def _figures(
    kind: ChangeoverKind, seen: Seen, losses: Sequence[Row], places: Sequence[Row]
) -> Iterator[Figure]:
    """What objectives are compared with: a switchover waits for what is behind, a failover loses it."""
    way = f"{seen.source.alias} to {seen.target.alias}"
    fresh_s = min((fresh_seconds(flow.config) for flow in seen.flows), default=0.0)
    if kind is ChangeoverKind.FAILOVER:
        yield from loss_objectives(losses, of=way, fresh_seconds=fresh_s)
    else:
        lag = loss_figures(losses)
        is_old = any((row["age_seconds"] or 0.0) > fresh_s for row in losses)
        yield Figure(Objective.MAX_LAG_RECORDS, lag["records_lost"], way, is_at_least=is_old)
        yield Figure(Objective.MAX_LAG_SECONDS, lag["seconds_lost"], way, is_at_least=is_old)
    yield Figure(Objective.MAX_DOWNTIME_SECONDS, seen.downtimes.get(kind), f"the last {kind} from {way}")
    yield from repeat_figures(places, _commits_that_count(kind, seen), fresh_seconds=fresh_s)


def _commits_that_count(kind: ChangeoverKind, seen: Seen) -> CommitsRead | None:
    """How old they are; None: they are read again when the groups are stopped."""
    return seen.commits if kind is ChangeoverKind.FAILOVER else None


def _of_clusters(kind: ChangeoverKind, seen: Seen, choices: Choices) -> Iterator[Blocker]:
    for cluster in (seen.source, seen.target):
        is_accepted = kind is ChangeoverKind.PROTECT and cluster is seen.target
        if cluster.identity_problem is not None and not is_accepted:
            yield Blocker(BlockerCode.OTHER_CLUSTER, cluster.identity_problem)
    if seen.target.live_id is None:
        yield Blocker(
            BlockerCode.TARGET_UNREACHABLE, f"{seen.target.alias} does not answer: {seen.target.trouble}"
        )
    if kind.is_planned and seen.source.live_id is None:
        yield Blocker(
            BlockerCode.SOURCE_UNREACHABLE,
            f"{seen.source.alias} does not answer: {seen.source.trouble}",
            chosen={}
            if kind is ChangeoverKind.PROTECT
            else {"kind": ChangeoverKind.FAILOVER, **_fenced(seen.source)},
        )
    if not kind.is_planned and seen.source.live_id is not None and not choices.source_given_up:
        yield Blocker(
            BlockerCode.SOURCE_ANSWERS,
            f"{seen.source.alias} answers: records that are written there now would stay behind",
            chosen={"kind": ChangeoverKind.SWITCHOVER, "fence": FenceChoice.CLOSED, "unproven": None},
        )


def _of_topics(kind: ChangeoverKind, seen: Seen, topics: Sequence[PlannedTopic]) -> Iterator[Blocker]:
    recreated = frozenset[str]() if seen.returned is None else seen.returned.recreated
    for one in topics:
        asked = [] if one.topic in recreated else [(seen.target, one.topic, one.topic_id, "wrote to")]
        if kind.is_planned:
            asked.append((seen.source, one.source_topic, one.source_topic_id, "copied"))
        for cluster, name, known_id, did in asked:
            live = cluster.topic_ids.get(name)
            if cluster.live_id is not None and (live or "") != known_id:
                is_now = "is not there" if live is None else f"has the id {live} now"
                yield Blocker(
                    BlockerCode.OTHER_TOPIC,
                    f"{name} of {cluster.alias} {is_now}; {one.flow} {did} {known_id}",
                )


def _of_what_nobody_copies(seen: Seen, choices: Choices) -> Iterator[Blocker]:
    if choices.topics is not None:
        return
    source, target = seen.source.alias, seen.target.alias
    for one in seen.not_copied:
        if one.topic in choices.left_out:
            continue
        if one.beyond is None:
            lies = "how much lies behind what was copied is unknown"
        else:
            lies = f"{counted(one.beyond, 'record')} known behind what was copied"
        read = "" if one.age_seconds is None else f", read {duration(one.age_seconds)} ago"
        yield Blocker(
            BlockerCode.NOT_COPIED_ANY_MORE,
            f"{one.flow} has copied {one.source_topic} of {source} to {one.topic} of {target}, and no enabled flow "
            f"does any more: {lies}{read}",
            chosen={"left_out": (one.topic,)},
        )


def _of_directions(
    kind: ChangeoverKind, seen: Seen, choices: Choices, topics: Sequence[PlannedTopic]
) -> Iterator[Blocker]:
    """A target that applications left is promoted as any other, and the source is demoted when all has come over; but
    what lies there alone, in front of what came since, is in the way of all groups that come back."""
    source, target = seen.source.alias, seen.target.alias
    names = [one.topic for one in topics] if choices.topics is None else choices.topics
    for topic, made_by in seen.directions.promotions(source, target, names).items():
        if made_by is not None and seen.directions.are_applications_at(target, source, topic):
            yield Blocker(BlockerCode.PROMOTED_ALREADY, f"{topic} of {target} was promoted {made_by}")
    in_scope = {one.topic for one in topics}
    extras = {topic: count for topic, count in sorted(seen.extras.items()) if topic in in_scope}
    if kind.is_planned and seen.returned is None and extras:
        lying = ", ".join(f"{topic} ({counted(count, 'offset')})" for topic, count in extras.items())
        yield Blocker(
            BlockerCode.EXTRAS_AT_TARGET,
            f"{target} has what was never copied from there, in front of what came back: {lying}; groups that return "
            f"would read all again that was written at {source}",
            chosen={"kind": ChangeoverKind.FAILBACK, "extras": ("keep",)},
        )


def _of_flow_itself(
    kind: ChangeoverKind, flow: SeenFlow, choices: Choices, topics: Sequence[PlannedTopic]
) -> Iterator[Blocker]:
    name = flow.config.name
    unmirrored = sorted(
        topic for topic in flow.unmirrored if flow.config.naming.target_name(topic) not in choices.left_out
    )
    if choices.topics is None and unmirrored:
        words = f"{name} has copied nothing of {', '.join(unmirrored)} yet"
        left = tuple(filter(None, map(flow.config.naming.target_name, unmirrored)))
        yield Blocker(BlockerCode.NOT_MIRRORED, words, chosen={"left_out": left})
    ids = {one.source_topic_id: one.source_topic for one in topics if one.flow == name}
    stopped = {
        (ids[topic_id], partition): stop.cause
        for (topic_id, partition), stop in flow.stopped.items()
        if topic_id in ids and stop.cause != StopCause.PROMOTED
    }
    if stopped:
        causes = ", ".join(sorted({str(cause) for cause in stopped.values()}))
        words = f"{name} has stopped at {by_topic(stopped)}: {causes}"
        left = tuple(
            {one.topic for one in topics if (one.flow, one.source_topic) in {(name, at) for at, _ in stopped}}
        )
        yield Blocker(BlockerCode.PARTITION_STOPPED, words, chosen={"left_out": left})
    is_at_work = flow.driver is RoleVerdict.IN_USE
    if kind.is_planned and not is_at_work:
        yield Blocker(
            BlockerCode.DRIVER_NOT_RUNNING,
            f"no driver of {name} is at work ({flow.driver.replace('_', ' ')})",
        )
    if flow.unrecorded:
        yield Blocker(
            BlockerCode.UNRECORDED_COPIES,
            f"{by_topic(flow.unrecorded)} of the target has more records of {name} than the ledger knows of",
        )
