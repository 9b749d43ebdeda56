"""What each step of an apply does, from the check to the report."""

import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ledger.changeover import pairs
from ledger.changeover.auditing import LedgerAudit, audit_rest, audit_rest_beside
from ledger.changeover.cut import cut_of_pair
from ledger.changeover.directions import change_direction, is_done
from ledger.changeover.fencing import fence_topics, leave_topics_open, unfence_topics
from ledger.changeover.groups import moved_by, places_of, readers, record_sheets
from ledger.changeover.hand_over import Ready, hand_over
from ledger.changeover.holding import release_retention
from ledger.changeover.losses import (
    Took,
    compared,
    compared_words,
    loss_figures,
    loss_words,
    of_applications,
    require_all_copied,
)
from ledger.changeover.measures import AskedFence, UnfenceResult, asked_fence
from ledger.changeover.plans import ChangeoverKind, FenceChoice, StepName, apply_command, undo_command
from ledger.changeover.receipts import StepResult, Waits
from ledger.changeover.seeing import losses_of, read_plan, recorder_settings, reverse_flows
from ledger.changeover.settling import settle_flow
from ledger.changeover.shut_out import shut_out
from ledger.changeover.step_context import StepContext
from ledger.changeover.waiting import (
    GroupPlace,
    GroupsAtRest,
    SeenCommits,
    WhichGroups,
    application_offsets,
    drain,
    ends_of,
    first_progress,
    mirrors_at,
    still_drained,
)
from ledger.config.values import Figure, Objective, objections
from ledger.doctor.examination import examine
from ledger.doctor.flow import DEFAULT_SHARE
from ledger.doctor.results import is_safe, one_row_for_each_cause
from ledger.errors import ClusterUnavailableError, PreconditionError, UnsafeError
from ledger.facts.cut_offsets import Cut
from ledger.facts.direction import Demoted, Promoted
from ledger.facts.fences import FenceHow, Proof
from ledger.facts.hand_overs import Purpose
from ledger.facts.roles import RoleVerdict, recorder_of, writer_of
from ledger.facts.syncs import TopicPartition
from ledger.offsets.between_clusters import commit_intervals
from ledger.offsets.setting import Outcome, oddities
from ledger.offsets.sheets import PositionSheet, set_positions
from ledger.recorders.recorder import recorder_verdict
from ledger.recorders.run import record_clusters
from ledger.roles import is_at_work
from ledger.store import answers
from ledger.words import counted, duration, listed

# Before cut ---------------------------------------------------------------------------------------
# Steps until nothing moves any more: checked, recorded, fenced, drained, at rest.


_DRIFT = ("missing", "differs", "surplus", "unknown")
_STOPPED = "its driver has stopped, and recorded what it copied"
_MAY_LIVE = "a driver may be at work, and records what it copies; if it is dead:"


def check(step: StepContext, _waits: Waits) -> StepResult:
    """Nothing that the plan read has changed: that was found before the apply began.

    What `doctor` finds of a source that answers, and where settings differ, is reported and stops nothing: what stands
    against a change of direction stood against the plan. Audits begin beside it.
    """
    step.kept.audit = LedgerAudit.begun(step.context)
    holds = f"the plan holds: {step.plan.from_cluster} to {step.plan.to_cluster}, flows {', '.join(step.plan.flows)}"
    is_reached = step.is_source_there()
    drift = _drifted_settings(step)
    words = [holds, *([f"settings differ: {', '.join(drift)}"] if drift else [])]
    facts: dict[str, object] = {"is_source_reached": is_reached, "drift": drift}
    if is_reached:
        with suppress(ClusterUnavailableError, PreconditionError):
            step.kept.see_ends(ends_of(step.source, step.plan.source_names), step.context.clock.monotonic())
        found = examine(step.config, step.plan.flows, probe=False, retention_share=DEFAULT_SHARE)
        bad = [one for one in one_row_for_each_cause(found) if not is_safe([one], strict=False)]
        words += [f"doctor: {one.subject}: {one.check} {one.verdict}" for one in bad]
        facts["doctor"] = [
            {
                "subject": one.subject,
                "check": str(one.check),
                "verdict": str(one.verdict),
                "measured": one.measured,
            }
            for one in bad
        ]
    return StepResult("; ".join(words), facts)


def _drifted_settings(step: StepContext) -> list[str]:
    """Settings of target topics that are not as they should follow, as recorded last."""
    at = step.context.snapshot()
    return sorted(
        f"{row['setting']} of {row['target_topic']} {row['status']}"
        for flow in step.plan.flows
        for row in answers.run_query(at, "topic_drift", {"flow": flow}).to_pylist()
        if row["status"] in _DRIFT and row["target_topic"] in step.plan.target_names
    )


def record(step: StepContext, waits: Waits) -> StepResult:
    """Who records the target's groups and ends; read once where nobody does.

    What is prepared for a switchover is done before producers are stopped: the ledger keeps its invariants.
    """
    if step.plan.kind.is_planned and step.kept.audit is not None:
        waits("the ledger is audited")
        step.kept.audit.require_kept()
    alias = step.plan.to_cluster
    claim, now_ms = step.state.last_claim(recorder_of(alias)), step.context.clock.now_ms()
    settings = recorder_settings(step.config, alias)
    verdict = recorder_verdict(settings, claim, step.context.processes, now_ms=now_ms)
    if claim is not None and verdict is RoleVerdict.IN_USE:
        silent = duration((now_ms - claim.last_recorded_at_ms) / 1000)
        words = (
            f"{alias} is recorded by a process of its own or a driver, which appended something {silent} ago"
        )
        return StepResult(words, {"is_recorded": True})
    rows = record_clusters(step.config, [alias], stop=threading.Event(), once=True)
    words = f"{alias} was read once; nobody records it now: run mirror-ledger record {alias}"
    if step.plan.kind is ChangeoverKind.FAILOVER:
        lost = step.plan.from_cluster
        words += f" {lost}, which reads {lost} as soon as it answers again"
    return StepResult(
        words,
        {"is_recorded": False, "rows": {cluster: dict(found) for cluster, found in rows.items()}},
    )


def stop_producers(step: StepContext, waits: Waits) -> StepResult:
    """By the hook that ran before, or a person; what proves it is the fence."""
    if StepName.STOP_PRODUCERS in step.plan.hooks:
        return StepResult("stopped by the hook", {"by": "hook"})
    names = ", ".join(step.plan.source_names)
    said = step.confirm(f"producers of {names} at {step.plan.from_cluster} are stopped", waits)
    return StepResult(said, {"by": said})


def fence_source(step: StepContext, waits: Waits) -> StepResult:
    """Nobody writes to the former source any more; or it is recorded why that could not be proven."""
    choices = step.plan.choices
    asked = asked_fence(
        step.plan.from_cluster, step.plan.source_names, choices, step.plan.hooks.get(StepName.FENCE)
    )
    if asked is None:
        return _not_fenced(step)
    result = fence_topics(step.context, replace(asked, ended_before=step.kept.ends), waits)
    return StepResult(result.words, {"proof": str(result.proof), "fences": result.facts})


def _not_fenced(step: StepContext) -> StepResult:
    """A source that was given up may come back, with producers at work: status says so until it is fenced."""
    choices, cluster = step.plan.choices, step.plan.from_cluster
    facts: dict[str, object] = {"proof": "unproven", "reason": choices.unproven}
    is_given_up = step.plan.kind is ChangeoverKind.FAILOVER and StepName.PROMOTE in step.plan.steps
    if not is_given_up:
        return StepResult(f"{cluster} is not fenced: {choices.unproven}", facts)
    asked = AskedFence(
        cluster=cluster,
        topics=step.plan.source_names,
        how=FenceHow.CLOSED,
        unproven=choices.unproven,
    )
    left = leave_topics_open(step.context, asked)
    return StepResult(
        f"{left.words}; when it answers again: mirror-ledger fence {cluster} --reason WHY, before anything else",
        {**facts, "proof": str(left.proof), "fences": left.facts},
    )


def drain_source(step: StepContext, waits: Waits) -> StepResult:
    """The maps reach the ends of the fenced source; a continued apply that has promoted the target does not wait."""
    if step.is_promoted:
        return still_drained(
            step.source, step.plan.topics, step.state.positions, operation_id=step.operation_id
        )
    patience = step.patience(step.plan.choices.drain_seconds)
    return drain(step.source, step.plan.topics, step.state.positions, patience, waits, step.copied_by)


def stop_groups(step: StepContext, waits: Waits) -> StepResult:
    """No group of the former source has members or commits, and the ledger has where they stand."""
    if StepName.STOP_GROUPS not in step.plan.hooks:
        step.confirm(
            f"consumers of {', '.join(step.plan.source_names)} at {step.plan.from_cluster} are stopped",
            waits,
        )
    return groups_at_rest(step).wait(step.patience(step.plan.choices.groups_seconds), waits)


def groups_at_rest(step: StepContext) -> GroupsAtRest:
    """Groups that move, at all topics of the former source that they read; found once by each process."""
    if step.kept.at_rest is None:
        step.kept.at_rest = _groups_at_rest(step)
    return step.kept.at_rest


def read_groups(step: StepContext) -> None:
    """Where they stand now, between steps: who commits without members is found before anybody waits for it."""
    if StepName.STOP_GROUPS in step.plan.steps and step.plan.choices.watch_seconds:
        groups_at_rest(step).read_again()


def _groups_at_rest(step: StepContext) -> GroupsAtRest:
    choices = step.plan.choices
    at = step.context.snapshot()
    moving, topics = readers(at, step.plan, step.scope)
    which = WhichGroups(
        are_recorded=step.scope.records_group,
        moving=moving,
        named=None if choices.groups is None else frozenset(choices.groups),
        accepted=frozenset(choices.accepted),
    )
    period_s = choices.watch_seconds
    intervals_s = commit_intervals(at, step.plan.from_cluster) if period_s else {}
    seen = SeenCommits(step.context.clock, period_s, intervals_s)
    return GroupsAtRest(step.source, topics, which, lambda: _recorded(step), seen, lambda: _fenced_ends(step))


def _recorded(step: StepContext) -> Iterator[GroupPlace]:
    """What the ledger has of the former source's groups by now."""
    yield from step.state.last_checkpoints(step.plan.from_cluster)
    yield from step.state.last_share_offsets(step.plan.from_cluster)


def _fenced_ends(step: StepContext) -> dict[tuple[str, int], int]:
    """Of the partitions of the plan's topics where it is proven that nothing comes any more."""
    topic_ids = {(one.source_topic, one.source_topic_id) for one in step.plan.topics}
    active = [one.fence for one in step.state.fences().at(step.plan.from_cluster)]
    return {
        (fence.topic, one.partition): one.end
        for fence in active
        if fence.proof == Proof.PROVEN and (fence.topic, fence.topic_id) in topic_ids
        for one in fence.partitions
    }


def settle_flows(step: StepContext, waits: Waits) -> StepResult:
    """What each flow had copied last and nobody has recorded.

    A driver that was shut out has recorded it when it stopped, or was found dead. Of others nobody knows. Where nothing
    is promoted, beside a source that answers, the flow itself finds it.
    """
    if step.is_source_there() and not step.is_promoted:
        return StepResult(f"{step.plan.from_cluster} answers: the flow itself finds what it copied last", {})
    words, facts = [], {}
    for name in step.plan.flows:
        if is_at_work(step.config.flow(name), step.state.last_claim(writer_of(name))):
            may_live = f"{_MAY_LIVE} mirror-ledger settle {name} --reason WHY"
            words.append(f"{name}: {_STOPPED if step.is_promoted else may_live}")
            continue
        if not step.state.has_run(name):
            words.append(f"{name} has never run: nothing of it is at {step.plan.to_cluster}")
            continue
        settled = settle_flow(step.context, name, progress=waits, is_promoted=step.is_promoted)
        if settled.refused:
            refused = "; ".join(f"{pair.target.topic} {why}" for pair, why in settled.refused.items())
            raise PreconditionError(f"{settled.words}: {refused}")
        words.append(settled.words)
        facts[name] = settled.facts()
    return StepResult("; ".join(words), facts)


# At target ----------------------------------------------------------------------------------------
# Steps at the target: promoted, closed to the mirror, cut, handed over, with its groups in place.


def promote(step: StepContext, waits: Waits) -> StepResult:
    """Direction changes, unless it has already; not before all is copied that has come to the source meanwhile."""
    if not step.is_promoted:
        step.require_no_later_topics()
        if StepName.DRAIN in step.plan.steps:
            drain_source(step, waits)
    made = change_direction(
        step.context,
        Promoted,
        step.promoted_pair,
        no_reverse=not step.plan.choices.reverse,
        is_exchange=True,
    )
    return StepResult(made.words, {"is_new": made.operation_id is not None})


def cut(step: StepContext, _waits: Waits) -> StepResult:
    """The ends of both sides, where the maps stand, and what of the former source is not at the target.

    Raises `PreconditionError` where that is anything, of a switchover behind which nothing is copied any more.
    """
    if StepName.PROMOTE in step.plan.steps:
        step.require_no_later_topics()  # again: now no driver begins with any
        step.kept.audited_rest = audit_rest_beside(step.context, step.kept.audit)
    pair = pairs.Pair(step.plan.to_cluster, step.plan.from_cluster, step.plan.target_names)
    taken = cut_of_pair(step.context, pair, operation_id=step.operation_id)
    figures = _losses(step, taken)
    if step.plan.kind.is_planned and StepName.PROMOTE in step.plan.steps:
        require_all_copied(figures, source=step.plan.from_cluster, operation_id=step.operation_id)
    return StepResult(f"{taken.words}; {loss_words(figures)}", {**taken.facts, "loss": figures})


def _losses(step: StepContext, taken: Cut) -> dict[str, Any]:
    """Figures of the loss; where the cut has read that all is copied nothing else is asked, for applications wait."""
    topic_ids = {(one.flow, one.source_topic): one.source_topic_id for one in step.plan.topics}
    is_planned = step.plan.kind.is_planned
    if is_planned and (sources := taken.sources_copied(topic_ids)) is not None:
        read_at_ms = [at.read_at_ms for at in sources if at.read_at_ms is not None]
        counted = {"partitions": len(sources), "source_read_at_ms": min(read_at_ms, default=None)}
        return {**loss_figures([]), **counted}
    at = step.context.snapshot()
    found = losses_of(at, step.pair, at_ms=step.begun_at_ms, cut=taken)
    left: list[Mapping[str, Any]] = step.scope.losses(found)
    return loss_figures([_of_applications(step, row) for row in left] if is_planned else left)


def _of_applications(step: StepContext, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a source that answers what lies behind the map may be a mirror's, or markers: no loss."""
    if not row["records"]:
        return row
    at = TopicPartition(row["source_topic"], row["source_topic_id"], row["partition"])
    is_mirror = mirrors_at(step.state, step.plan.from_cluster_id)
    try:
        return of_applications(
            row, application_offsets(step.source, at, row["copied_to"], row["known_end"], is_mirror)
        )
    except ClusterUnavailableError:
        return row


def move_groups(step: StepContext, waits: Waits) -> StepResult:
    """Every group continues at the target where it has to; raises when one does not, and the others do.

    Where the former source answers its commits stood still when the groups were stopped, and have to stand there still:
    an apply may be continued much later. Here they are watched once they are set: a consumer that assigned itself
    partitions commits over them.
    """
    choices = step.plan.choices
    if StepName.STOP_GROUPS in step.plan.steps:
        with suppress(ClusterUnavailableError):
            groups_at_rest(step).require_still_at_rest(step.patience(choices.groups_seconds), waits)
    at = step.context.snapshot()
    quiet_s = choices.watch_seconds
    after = step.patience(quiet_s).watch(quiet_s, waits) if quiet_s else None
    asked = places_of(step.config, step.plan, step.scope)
    _, done, basis = set_positions(
        step.context,
        at,
        asked,
        after=after,
        after_where_used=True,
        require_own=step.require_own,
    )
    if not done.is_complete:
        raise PreconditionError(
            f"not every group continues at {step.plan.to_cluster}, what could be set is set:",
            *listed([*done.left_lines(), *done.blockers]),
            f"Then continue: {apply_command(step.plan.plan_id)}. What it does not set, people do, for each of these "
            f"groups: {_by_hand(step, done)}",
        )
    record_sheets(step.context, step.plan.plan_id, done, basis)
    return StepResult(done.words, done.facts)


def _by_hand(step: StepContext, done: PositionSheet) -> str:
    """The command that sets the first of the groups that are left, with what it needs: what that group commits at the
    target until somebody types it is not overwritten."""
    first = next((one.group_id for one in done.left_out), None)
    of_first = [one for one in done.left_out if one.group_id == first]
    lacking = {status for one in of_first for status in oddities(one.answer)}
    if any(one.outcome is Outcome.NEWER for one in of_first):
        lacking.add("newer")
    options = [f"--accept {name}" for name in sorted(lacking - set(step.plan.choices.accepted))]
    way = f"--from {step.plan.from_cluster} --to {step.plan.to_cluster}"
    group = "GROUP" if first is None else shlex.quote(first)
    return " ".join([f"mirror-ledger offsets set {way} --group {group}", *options])


def hand_over_to_applications(step: StepContext, waits: Waits) -> StepResult:
    """The target gets the settings and permissions that applications had, and loses the fence that it was left with
    once; what people have to do is named."""
    lifted = _open_to_applications(step, waits)
    released = release_retention(step.context, step.plan.to_cluster, step.plan.target_names, waits)
    ready = handed_over(step, Purpose.APPLICATIONS, waits)
    opened = [] if lifted is None else [lifted.words]
    if lifted is not None and any(one.how == FenceHow.HOOK for one in lifted.lifted):
        opened.append("what a hook has stopped there is to be started again")
    words = "; ".join([*opened, *released, ready.words])
    return StepResult(words, {**ready.facts, "unfenced": () if lifted is None else lifted.facts})


def _open_to_applications(step: StepContext, waits: Waits) -> UnfenceResult | None:
    """None: nothing of the target was fenced."""
    cluster = step.plan.to_cluster
    fenced = {one.fence.topic for one in step.state.fences().at(cluster)} & set(step.plan.target_names)
    if not fenced:
        return None
    return unfence_topics(step.context, cluster, fenced, waits)


def handed_over(step: StepContext, purpose: Purpose, waits: Waits) -> Ready:
    """What became of it, for the topics of the plan; the mirrors of both clusters are no applications."""
    plan = step.plan
    pair = pairs.Pair(plan.to_cluster, plan.from_cluster, plan.target_names)
    return hand_over(step.context, pair, purpose, waits)


def shut_out_mirror(step: StepContext, waits: Waits) -> StepResult:
    """Its drivers have stopped, and the cluster lets it write no more; raises where the latter is not proven."""
    choices, target = step.plan.choices, step.plan.to_cluster
    done = shut_out(
        step.context,
        step.promoted_pair,
        with_markers=choices.abort_marker,
        limit_s=choices.drain_seconds,
        say=waits,
    )
    if done.unproven and not choices.accept_unproven_shut_out:
        raise UnsafeError(
            f"the mirror has stopped, and nothing but the ledger keeps it from {target}: {done.unproven[0].reason}. "
            f"Undo it ({undo_command(step.operation_id)}), and plan with --accept mirror_not_shut_out"
        )
    return StepResult(done.words, done.facts)


# Afterwards ---------------------------------------------------------------------------------------
# Steps once everything is in place: audited, applications started, measured, the way back opened, reported.


_RULES_ARE_KNOWN_WITHIN_S = 5.0


def audit(step: StepContext, waits: Waits) -> StepResult:
    """Every invariant of the ledger holds, as of when the mirror had stopped, else of now; that runs since `cut`."""
    waits("the ledger is audited")
    beside = step.kept.audited_rest
    at, passed = audit_rest(step.context, step.kept.audit) if beside is None else beside.result()
    return StepResult(f"{counted(len(passed), 'audit')} passed", {"audits": passed, "cut": at.cut.token})


def start_applications(step: StepContext, waits: Waits) -> StepResult:
    """By the hook that ran before, or a person: from here on applications write at the target."""
    if StepName.START_APPLICATIONS in step.plan.hooks:
        return StepResult("started by the hook", {"by": "hook"})
    said = step.confirm(f"applications are started at {step.plan.to_cluster}", waits)
    return StepResult(said, {"by": said})


def groups_progress(step: StepContext, waits: Waits) -> StepResult:
    """When each group that was moved commits first at the target."""
    seconds = step.plan.choices.progress_seconds
    if not seconds:
        return StepResult("not waited for: --wait-progress", {})
    moved = moved_by(step.context, step.operation_id)
    return first_progress(step.target, moved, step.patience(seconds), waits)


def reverse(step: StepContext, waits: Waits) -> StepResult:
    """The former source gets what copying back needs; says what is to be run so that it gets what is written now."""
    plan = step.plan
    if not plan.choices.reverse:
        return StepResult("nothing is to be mirrored back", {})
    if plan.choices.fence is FenceChoice.SHUT:
        # A topic that takes no batch takes none of the mirror's; what keeps producers out is that they were moved.
        unfence_topics(step.context, plan.from_cluster, plan.source_names, waits)
    ready = handed_over(step, Purpose.MIRROR, waits)
    given_up = _give_up(step)
    flows = [step.config.flow(name) for name in plan.flows]
    back = sorted(set(reverse_flows(step.config, flows).values()))
    commands = [f"mirror-ledger run {name} --from-cut {step.operation_id}" for name in back]
    lacking = _not_writable(step, waits, is_opened=given_up is not None)
    first = f"grant the mirror WRITE on {', '.join(lacking)} of {plan.from_cluster}, then " if lacking else ""
    words = "; ".join(
        [ready.words, *filter(None, [given_up]), f"to mirror back: {first}{'; '.join(commands)}"]
    )
    return StepResult(words, {"commands": commands, "not_writable": lacking, **ready.facts})


def _give_up(step: StepContext) -> str | None:
    """A source that applications came to before is promoted no more: its mirror may write there again, behind the cut,
    when all has been handed over. Until now neither direction wrote. None: it was not promoted."""
    way = step.source_pair
    if is_done(way, Demoted, step.state.directions()):
        return None
    made = change_direction(step.context, Demoted, way, cut_operation=step.operation_id)
    return made.words


def _not_writable(step: StepContext, waits: Waits, *, is_opened: bool) -> list[str]:
    """Topics of the source that the mirror may not write to; brokers learn a little later that a rule was removed."""

    def lacking() -> list[str]:
        return sorted(set(step.plan.source_names) - step.source.writable_topics(step.plan.source_names))

    if is_opened:
        with suppress(PreconditionError):
            patience = step.patience(_RULES_ARE_KNOWN_WITHIN_S)
            patience.until(lambda: ", ".join(lacking()) or None, waits, advice="")
    return lacking()


def report(step: StepContext, _waits: Waits) -> StepResult:
    """What was lost, how long applications had nowhere to write, and what each step took, beside what was forecast."""
    made = read_plan(step.context, step.plan.plan_id)
    now, forecast = made.applies.the(step.operation_id), made.recorded.forecast
    took = Took.of(step.plan.kind, now)
    loss = now.done[StepName.CUT].read_back["loss"]
    figures = {
        **took.figures,
        **loss,
        "step_seconds": {str(name): round(took_ms / 1000, 3) for name, took_ms in now.took_ms.items()},
    }
    foreseen = compared(forecast["downtime"], figures["step_seconds"]) if "downtime" in forecast else {}
    taken = Figure(
        Objective.MAX_DOWNTIME_SECONDS, took.downtime_s, "this apply", is_at_least=took.is_at_least
    )
    missed = [words for _, words in objections(step.config.allowed, [taken])]
    words = [loss_words(loss), took.words, *([compared_words(foreseen)] if foreseen else []), *missed]
    return StepResult("; ".join(words), {**figures, "forecast": foreseen})
