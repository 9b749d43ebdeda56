"""Steps while a cluster gets what another one has: applications stay at work where they are, for hours if need be."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ledger.changeover.auditing import LedgerAudit
from ledger.changeover.brought import paired
from ledger.changeover.decisions import Decisions
from ledger.changeover.directions import accept_cluster
from ledger.changeover.failback import asked_fence_of_target, open_at_target
from ledger.changeover.holding import fence_and_hold, hold_retention, release_retention
from ledger.changeover.mirror_back import AskedMirrorBack, lift_shut, mirror_back
from ledger.changeover.planning import Planned, repeats_by_cause
from ledger.changeover.plans import ChangeoverKind, StepName, apply_command, steps_of
from ledger.changeover.receipts import StepResult, Waits
from ledger.changeover.scope import RepeatCause
from ledger.changeover.seeing import make_plan, read_plan
from ledger.changeover.step_context import StepContext
from ledger.changeover.text import repeats_by_cause_words
from ledger.changeover.waiting import ends_of, offsets_behind
from ledger.config.values import objections
from ledger.context import Context
from ledger.errors import ClusterUnavailableError, PreconditionError, UnsafeError
from ledger.facts.direction import WayBack
from ledger.facts.fences import FenceHow
from ledger.facts.requests import StopRequest
from ledger.facts.roles import writer_of
from ledger.facts.syncs import SyncCause, holding
from ledger.kafka.cluster import live_cluster, topic_ids
from ledger.mirror.assignment import StopCause
from ledger.offsets.sheets import repeat_words
from ledger.roles import is_at_work
from ledger.store.session import random_id
from ledger.words import by_topic, counted, duration, listed, some_of

_NO_LIMIT = float("inf")
_UNTIL_STOPPED_S = 300.0


def accept_target(step: StepContext, _waits: Waits) -> StepResult:
    """The alias stands for the cluster that the plan was made for: another one than before, or one formatted again.

    In an operation of its own: it stays so. Raises `PreconditionError` while a driver that touches it may be at work.
    """
    alias, identities = step.plan.to_cluster, step.state.identities()
    known, live = identities.possible_ids(alias), live_cluster(step.target)
    if not known:
        return StepResult(f"nobody ever ran with {alias}: its first driver makes it {live.cluster_id}", {})
    try:
        identities.require(alias, live)
    except PreconditionError:
        is_rebuilt = live.cluster_id in known
        context = step.context.part_of(random_id())
        return StepResult(accept_cluster(context, alias, live.cluster_id, rebuilt=is_rebuilt).words, {})
    return StepResult(f"{alias} stands for {live.cluster_id} already", {})


def fence_target(step: StepContext, waits: Waits) -> StepResult:
    """Nothing is deleted at the cluster that is back, and nobody but the mirror writes there; once it is mirrored to, a
    topic that took no batch takes those of the mirror, so its fence is over.

    In an operation of its own, as `open_way_back`.
    """
    cluster = step.plan.to_cluster
    if (open_ones := _ways_back(step)) is not None:
        return StepResult(f"{cluster} gets what is written since operation {_operations(open_ones)}", {})
    context, topics = step.context.part_of(random_id()), step.plan.topics
    left = open_at_target(context, cluster, topics, step.plan.choices)
    before = sorted({one.topic for one in topics} - set(left))
    words = [_held(context, cluster, before, waits)] if before else []
    if not left:
        words.append(f"{counted(len(before), 'topic')} of {cluster} fenced before")
        return StepResult("; ".join(words), {})
    asked = asked_fence_of_target(cluster, left, step.plan.choices)
    if asked is None:
        raise PreconditionError(
            f"{', '.join(left)} of {cluster} is not fenced any more: mirror-ledger fence {cluster} --reason WHY; then "
            f"continue: {apply_command(step.plan.plan_id)}"
        )
    if (
        asked.how is FenceHow.SHUT
    ):  # it would refuse what a driver of the way back copies, which would stop for that
        _stop_drivers(step, waits, step.plan.flows)
    result = fence_and_hold(context, asked, waits)
    facts = {"proof": str(result.proof), "fences": result.facts}
    return StepResult("; ".join([*words, result.words]), facts)


def _held(context: Context, cluster: str, topics: Sequence[str], waits: Waits) -> str:
    """What became of the retention of topics that were fenced before; where it cannot be held they are fenced still."""
    try:
        return hold_retention(context, cluster, topics, waits)
    except (PreconditionError, UnsafeError) as error:
        return f"retention of {some_of(topics, 'topic')} of {cluster} is not held: {error}"


def open_way_back(step: StepContext, waits: Waits) -> StepResult:
    """What the cluster that is back has alone is decided, and it may get what was written since.

    In an operation of its own: it stays when the rest is undone. Raises `UnsafeError` where something lies there that
    the plan decides nothing about.
    """
    plan = step.plan
    if (open_ones := _ways_back(step)) is not None:
        # A process may have ended before it has lifted what would stop the mirror too.
        lifted = lift_shut(step.context, plan.to_cluster, plan.target_names, waits)
        words = [f"open since operation {_operations(open_ones)}", *lifted]
        return StepResult("; ".join(words), {"is_new": False})
    forward = filter(None, [step.config.flow(name).opposite for name in plan.flows])
    stopped = _stop_drivers(step, waits, [*plan.flows, *forward])
    choices = plan.choices
    asked = AskedMirrorBack(
        source=plan.from_cluster,
        target=plan.to_cluster,
        topics=plan.target_names,
        decisions=Decisions.of(choices.extras, choices.deficits, undone="nothing was decided"),
        given_up=choices.given_up,
        later=choices.topics is None,
        left_out=choices.left_out,
    )
    done = mirror_back(step.context.part_of(random_id()), asked, waits)
    words = [*([f"{', '.join(stopped)} stopped"] if stopped else []), *done.words]
    facts = {"is_new": True, "operation": done.operation_id, "commands": list(done.commands)}
    return StepResult("; ".join(words), facts)


def catch_up(step: StepContext, waits: Waits) -> StepResult:
    """All that was written is at the target, but for a little; what stands against the switch is found while
    applications are at work still."""
    plan = step.plan
    _wait_for_copies(step, waits)
    if not plan.moves_applications:
        released = release_retention(step.context, plan.to_cluster, plan.target_names, waits)
        words = [f"{plan.to_cluster} gets what is written at {plan.from_cluster}", *released]
        return StepResult("; ".join(words), {})
    step.require_no_later_topics()
    behind = _wait_for_groups(step, waits)
    switch = _require_switch(step)
    step.kept.audit = LedgerAudit.begun(step.context)  # of hours ago otherwise
    left, repeats = counted(plan.choices.within, "offset"), _repeats(step, switch, behind)
    _require_few_repeats(step, repeats)
    words = [f"at most {left} to copy; groups would read {repeat_words(switch.forecast)} again"]
    if any(count != 0 for causes in repeats.values() for count in causes.values()):
        words.append(f"read again in all: {repeats_by_cause_words(repeats)}")
    if behind:
        names = some_of(behind, "group")
        words.append(f"not beyond the extras that were copied to {plan.from_cluster}: {names}")
    facts = {"forecast": switch.forecast, "groups_before_extras": behind, "repeats": repeats}
    return StepResult("; ".join(words), facts)


def _repeats(step: StepContext, switch: Planned, behind: Collection[str]) -> dict[str, dict[str, int | None]]:
    """By group what it reads again, by cause: at the switch, and what the plan had counted of extras before."""
    made = read_plan(step.context, step.plan.plan_id, is_begun=True).recorded.forecast
    found = {group: dict(causes) for group, causes in made["returned"].get("repeats", {}).items()}
    for row in switch.places:
        if (group := row["group_id"]) is not None:
            cause = RepeatCause.NOT_PASSED if group in behind else RepeatCause.COMMITTED_LATE
            causes = found.setdefault(str(group), {})
            before, more = causes.get(cause, 0), row["repeated"]
            causes[cause] = None if before is None or more is None else before + more
    return found


def _require_few_repeats(step: StepContext, repeats: Mapping[str, Mapping[str, int | None]]) -> None:
    """Raise `UnsafeError` where a group would read more again than is allowed, over all causes."""
    if step.plan.choices.despite_objectives:
        return
    missed = [words for _, words in objections(step.config.allowed, repeats_by_cause(repeats))]
    if missed:
        raise UnsafeError(
            "nothing of the switch was begun:",
            *listed([*missed, f"read again: {repeats_by_cause_words(repeats)}"]),
            "Plan again with --accept objective: that begins where this one ends",
        )


def _wait_for_copies(step: StepContext, waits: Waits) -> None:
    """Without a limit: a cluster that does not answer is waited for as well."""
    clock, names = step.context.clock, set(step.plan.source_names)
    began_s, first = clock.monotonic(), dict[str, int]()

    def left() -> str | None:
        try:
            ends = ends_of(step.source, names)
            step.kept.see_ends(ends, clock.monotonic())
            behind = offsets_behind(ends, step.plan.topics, step.state.positions, topic_ids(step.target))
            to_come = sum(lacking or 0 for lacking in behind.values())
            copied = first.setdefault("to_come", to_come) - to_come
            words = _lacking(step, behind)
            return words and words + _remaining(copied, to_come, clock.monotonic() - began_s)
        except ClusterUnavailableError as error:
            return f"{error}: waiting until it answers"

    step.patience(_NO_LIMIT).until(left, waits, advice="")


def _lacking(step: StepContext, behind: Mapping[tuple[str, int], int | None]) -> str | None:
    """What is not at the target, with why nobody copies it; None: as little as the plan allows, and a driver copies."""
    plan, to_come = step.plan, sum(lacking or 0 for lacking in behind.values())
    not_begun = [at for at, lacking in behind.items() if lacking is None]
    stopped, idle = _stopped(step), step.idle_flows()
    if to_come <= plan.choices.within and not not_begun and not stopped and not idle:
        return None
    words = f"{counted(to_come, 'offset')} of {plan.from_cluster} to come"
    if not_begun:
        words += f", {by_topic(not_begun)} not begun with"
    if stopped:
        return f"{words}; {stopped}"
    if lacking := _not_writable(step):
        return f"{words}; grant the mirror WRITE on {', '.join(lacking)} of {plan.to_cluster}"
    return words + step.copied_by()


def _not_writable(step: StepContext) -> list[str]:
    """Topics that are there, and to which the mirror may not write."""
    there = sorted(set(step.plan.target_names) & step.target.topics().keys())
    return sorted(set(there) - step.target.writable_topics(there))


def _stopped(step: StepContext) -> str | None:
    """Partitions that nobody copies, whatever the driver does; None: there are none. Those of a promotion that is over
    the next driver takes up again."""
    directions, way = step.state.directions(), step.pair
    ids = {one.source_topic_id: one.source_topic for one in step.plan.topics}
    held = {
        one.source_topic_id
        for one in step.plan.topics
        if directions.promotion(way.source, way.target, one.topic) is not None
    }
    found = {
        (ids[topic_id], partition): (str(stop.cause), flow)
        for flow in step.plan.flows
        for (topic_id, partition), stop in step.state.stopped_partitions(flow).items()
        if topic_id in ids and (stop.cause != StopCause.PROMOTED or topic_id in held)
    }
    if not found:
        return None
    causes = ", ".join(sorted({cause for cause, _ in found.values()}))
    flows = "; ".join(f"mirror-ledger status {flow}" for flow in sorted({flow for _, flow in found.values()}))
    return f"{by_topic(found)} stopped ({causes}): {flows}"


def _wait_for_groups(step: StepContext, waits: Waits) -> list[str]:
    """Groups that have not read what was replicated of extras, when the time for groups is over: to these it is unread
    at home too, in front of all that came back.

    Raises `UnsafeError` where one has not read what stays where it is: at home it would never read that.
    """
    copies, kept = _replicated(step), _kept(step)

    def left() -> str | None:
        names = sorted({*_behind(step, copies), *_behind(step, kept)})
        return (
            f"{some_of(names, 'group')} has not read what is at {step.plan.from_cluster} alone"
            if names
            else None
        )

    if copies or kept:
        seconds, cluster = step.plan.choices.groups_seconds, step.plan.from_cluster
        advice = f"Let it read on at {cluster}; after {seconds:g} s it reads copies at {step.plan.to_cluster} again"
        with suppress(PreconditionError):
            step.patience(seconds).until(left, waits, advice=advice)
    if names := _behind(step, kept):
        raise UnsafeError(
            f"{some_of(names, 'group')} has not read what stays at {step.plan.from_cluster} alone (--deficits keep), "
            f"and would never read it at {step.plan.to_cluster}; nothing of the switch was begun. Let it read there, "
            f"then continue: {apply_command(step.plan.plan_id)}; or plan again without it (--group)"
        )
    return _behind(step, copies)


def _behind(step: StepContext, ends: Mapping[tuple[str, int], int]) -> list[str]:
    """Groups of the plan with a commit where applications are, below one of these."""
    asked = step.plan.choices.groups
    return sorted(
        {
            one.group_id
            for one in step.state.last_checkpoints(step.plan.from_cluster)
            if (end := ends.get((one.topic, one.partition))) is not None
            and one.committed_offset is not None
            and one.committed_offset < end
            and (asked is None or one.group_id in asked)
        }
    )


def _kept(step: StepContext) -> dict[tuple[str, int], int]:
    """By topic and partition where applications are the end of what stays there of deficits."""
    deficits, plan = step.state.deficits(), step.plan
    return {
        (one.source_topic, partition): end
        for one in plan.topics
        for partition, (_, end) in deficits.kept(plan.to_cluster, one.source_topic_id).items()
    }


def _replicated(step: StepContext) -> dict[tuple[str, int], int]:
    """By topic and partition where applications are the end of what was replicated there of extras last: it lies behind
    the mark that says so in the map."""
    ids = {one.topic_id: (one.source_topic, one.source_topic_id) for one in step.plan.topics}
    opposites = {step.config.flow(name).opposite for name in step.plan.flows}
    found: dict[tuple[str, int], int] = {}
    for forward in sorted(filter(None, opposites)):
        for at in step.state.positions(forward):
            if at.source_topic_id not in ids:
                continue
            topic, topic_id = ids[at.source_topic_id]
            is_behind_mark = False
            for sync in holding(step.state.recorded_syncs(forward, at.source_topic, at.partition)):
                if sync.cause is SyncCause.EXTRAS:
                    is_behind_mark = True
                    found.pop((topic, at.partition), None)
                elif is_behind_mark and sync.records and sync.target.topic_id == topic_id:
                    found[topic, at.partition] = sync.target_end
    return found


def _remaining(copied: int, left: int, elapsed_s: float) -> str:
    """By how fast it was until now; empty while nobody knows."""
    if copied <= 0 or elapsed_s <= 0:
        return ""
    return f", {duration(left * elapsed_s / copied)} left at {copied / elapsed_s:,.0f} a second"


def _require_switch(step: StepContext) -> Planned:
    """The switch as it would be planned now; raises `UnsafeError` where something stands against it."""
    plan = step.plan
    own = steps_of(ChangeoverKind.SWITCHOVER, is_promoted=True)
    hooks = {name: command for name, command in plan.hooks.items() if name in own}
    choices = replace(plan.choices, extras=(), deficits=())
    made = make_plan(step.context, ChangeoverKind.SWITCHOVER, step.pair, choices, hooks)
    if made.blockers:
        raise UnsafeError(
            f"{plan.to_cluster} has what was written at {plan.from_cluster}, and applications cannot go there yet; "
            "nothing of the switch was begun:",
            *listed(f"{one.code}: {one.words}; to do: {one.advice}" for one in made.recorded_blockers),
            f"Then continue: {apply_command(plan.plan_id)}; where another plan is needed (--accept, --topic, --group), "
            "it begins where this one ends",
        )
    return made


def _ways_back(step: StepContext) -> Sequence[WayBack] | None:
    """By topic that had been copied from there, each of its own incarnation; None: of one nothing is decided. What
    applications have created where they are since was never there alone."""
    directions, way = step.state.directions(), step.pair
    copied = {
        at.source_topic_id
        for flow in step.plan.flows
        if (forward := step.config.flow(flow).opposite) is not None
        for at in paired(step.state, step.config.flow(forward))
    }
    # What the plan creates again was copied, whoever has created it by now.
    both = zip(step.plan.topics, step.topics, strict=True)
    left = [one for planned, one in both if planned.topic_id in copied or not planned.topic_id]
    found = [directions.way_back(way.source, way.target, one.topic) for one in left]
    held = [
        back
        for back, one in zip(found, left, strict=True)
        if back is not None and back.holds(one.topic, one.topic_id)
    ]
    return held if len(held) == len(found) else None


def _operations(ways_back: Sequence[WayBack]) -> str:
    return ", ".join(sorted({one.operation_id for one in ways_back}))


def _stop_drivers(step: StepContext, waits: Waits, flows: Sequence[str]) -> list[str]:
    """None of them writes while it is decided what the cluster that is back has alone."""

    def at_work() -> list[str]:
        last = {name: step.state.last_claim(writer_of(name)) for name in flows}
        return [name for name, claim in last.items() if is_at_work(step.config.flow(name), claim)]

    def left() -> str | None:
        names = at_work()
        return f"{', '.join(names)} at work still" if names else None

    asked = at_work()
    for name in asked:
        step.context.record(StopRequest(), flow=name)
    advice = (
        "They were asked to stop, and end after their round; what starts them again has to leave them alone"
    )
    step.patience(_UNTIL_STOPPED_S).until(left, waits, advice=advice)
    return asked


STEPS = {
    StepName.ACCEPT_CLUSTER: accept_target,
    StepName.FENCE_TARGET: fence_target,
    StepName.MIRROR_BACK: open_way_back,
    StepName.CATCH_UP: catch_up,
}
"""By step what it does."""
