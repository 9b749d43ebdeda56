"""Steps until nothing moves any more: checked, recorded, fenced, drained, at rest."""

import threading
from collections.abc import Iterator
from dataclasses import replace

from ledger.adapters.duck.group_commits import commit_intervals
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.app import answers
from ledger.app.acts.fencing import fence_topics, leave_topics_open
from ledger.app.acts.settling import settle_flow
from ledger.app.changeover.auditing import LedgerAudit
from ledger.app.changeover.fence_of_plan import asked_fence
from ledger.app.changeover.scene import Scene
from ledger.app.changeover.seeing import recorder_settings
from ledger.app.changeover.sheets import readers
from ledger.app.driver_roles import is_at_work
from ledger.app.examination import examine
from ledger.app.recording import record_clusters
from ledger.config.mirror import MirrorConfig
from ledger.doctor.causes import one_row_for_each_cause
from ledger.doctor.check_results import is_safe
from ledger.doctor.verdicts.retention import DEFAULT_SHARE
from ledger.domain.changeover.steps import ChangeoverKind, StepName
from ledger.domain.fences.proof import Proof
from ledger.domain.fences.receipts import FenceHow
from ledger.domain.writer_roles import RoleVerdict, recorder_of, verdict_here, writer_of
from ledger.errors import PreconditionError
from ledger.operations.changeover.applying import StepResult, Waits
from ledger.operations.changeover.groups_at_rest import (
    GroupsAtRest,
    SeenCommits,
    Standing,
    WhichGroups,
)
from ledger.operations.changeover.waiting import drain, still_drained
from ledger.operations.fencing.parts import AskedFence

_DRIFT = ("missing", "differs", "surplus", "unknown")
_STOPPED = "its driver has stopped, and recorded what it copied"
_MAY_LIVE = "a driver may be at work, and records what it copies; if it is dead:"


def check(scene: Scene, _waits: Waits) -> StepResult:
    """Nothing that the plan read has changed: that was found before the apply began.

    What `doctor` finds of a source that answers, and where settings differ, is reported and stops nothing: what stands
    against a change of direction stood against the plan. Audits begin beside it.
    """
    scene.kept.audit = LedgerAudit.begun(scene.config)
    holds = f"the plan holds: {scene.plan.from_cluster} to {scene.plan.to_cluster}, flows {', '.join(scene.plan.flows)}"
    is_reached = scene.is_source_there()
    drift = _drifted_settings(scene)
    words = [holds, *([f"settings differ: {', '.join(drift)}"] if drift else [])]
    facts: dict[str, object] = {"is_source_reached": is_reached, "drift": drift}
    if is_reached:
        found = examine(scene.config, scene.plan.flows, probe=False, retention_share=DEFAULT_SHARE)
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


def _drifted_settings(scene: Scene) -> list[str]:
    """Settings of target topics that are not as they should follow, as recorded last."""
    at = answers.snapshot(scene.config, None)
    return sorted(
        f"{row['setting']} of {row['target_topic']} {row['status']}"
        for flow in scene.plan.flows
        for row in answers.run_query(at, "topic_drift", {"flow": flow}).to_pylist()
        if row["status"] in _DRIFT and row["target_topic"] in scene.plan.target_names
    )


def record(scene: Scene, waits: Waits) -> StepResult:
    """Who records the target's groups and ends; read once where nobody does.

    What is prepared for a switchover is done before producers are stopped: the ledger keeps its invariants.
    """
    if scene.plan.kind is ChangeoverKind.SWITCHOVER and scene.kept.audit is not None:
        waits("the ledger is audited")
        scene.kept.audit.require_kept()
    alias = scene.plan.to_cluster
    if _is_recorded(scene.config, scene, alias):
        return StepResult(f"{alias} is recorded by a process of its own or a driver", {"is_recorded": True})
    rows = record_clusters(scene.config, [alias], stop=threading.Event(), once=True)
    return StepResult(
        f"{alias} was read once; nobody records it now: run mirror-ledger record {alias}",
        {"is_recorded": False, "rows": {cluster: dict(found) for cluster, found in rows.items()}},
    )


def stop_producers(scene: Scene, waits: Waits) -> StepResult:
    """By the hook that ran before, or a person; what proves it is the fence."""
    if StepName.STOP_PRODUCERS in scene.plan.hooks:
        return StepResult("stopped by the hook", {"by": "hook"})
    said = scene.asked.confirm(
        f"producers of {', '.join(scene.plan.source_names)} at {scene.plan.from_cluster} are stopped", waits
    )
    return StepResult(said, {"by": said})


def fence_source(scene: Scene, waits: Waits) -> StepResult:
    """Nobody writes to the former source any more; or it is recorded why that could not be proven."""
    choices = scene.plan.choices
    asked = asked_fence(
        scene.plan.from_cluster, scene.plan.source_names, choices, scene.plan.hooks.get(StepName.FENCE)
    )
    if asked is None:
        return _not_fenced(scene)
    asked = replace(asked, reason=scene.asked.reason, ticket=scene.asked.ticket)
    result = fence_topics(scene.config, asked, waits, operation_id=scene.operation_id)
    return StepResult(result.words, {"proof": str(result.proof), "fences": result.facts})


def _not_fenced(scene: Scene) -> StepResult:
    """A source that was given up may come back, with producers at work: status says so until it is fenced."""
    choices, cluster = scene.plan.choices, scene.plan.from_cluster
    facts: dict[str, object] = {"proof": "unproven", "reason": choices.unproven}
    is_given_up = scene.plan.kind is ChangeoverKind.FAILOVER and StepName.PROMOTE in scene.plan.steps
    if not is_given_up:
        return StepResult(f"{cluster} is not fenced: {choices.unproven}", facts)
    asked = AskedFence(
        cluster=cluster,
        topics=scene.plan.source_names,
        how=FenceHow.CLOSED,
        reason=scene.asked.reason,
        ticket=scene.asked.ticket,
        unproven=choices.unproven,
    )
    left = leave_topics_open(scene.config, asked, operation_id=scene.operation_id)
    return StepResult(
        f"{left.words}; when it answers again: mirror-ledger fence {cluster} --reason WHY, before anything else",
        {**facts, "proof": str(left.proof), "fences": left.facts},
    )


def drain_source(scene: Scene, waits: Waits) -> StepResult:
    """The maps reach the ends of the fenced source; a continued apply that has promoted the target does not wait."""
    if scene.is_promoted:
        return still_drained(
            scene.source, scene.plan.topics, scene.state.positions, operation_id=scene.operation_id
        )
    patience = scene.patience(scene.plan.choices.drain_seconds)
    return drain(scene.source, scene.plan.topics, scene.state.positions, patience, waits)


def stop_groups(scene: Scene, waits: Waits) -> StepResult:
    """No group of the former source has members or commits, and the ledger has where they stand."""
    if StepName.STOP_GROUPS not in scene.plan.hooks:
        scene.asked.confirm(
            f"consumers of {', '.join(scene.plan.source_names)} at {scene.plan.from_cluster} are stopped",
            waits,
        )
    return groups_at_rest(scene).wait(scene.patience(scene.plan.choices.groups_seconds), waits)


def groups_at_rest(scene: Scene) -> GroupsAtRest:
    """Groups that move, at all topics of the former source that they read; found once by each process."""
    if scene.kept.at_rest is None:
        scene.kept.at_rest = _groups_at_rest(scene)
    return scene.kept.at_rest


def look_at_groups(scene: Scene) -> None:
    """Where they stand now, between steps: who commits without members is found before anybody waits for it."""
    if StepName.STOP_GROUPS in scene.plan.steps and scene.plan.choices.watch_seconds:
        groups_at_rest(scene).look()


def _groups_at_rest(scene: Scene) -> GroupsAtRest:
    choices = scene.plan.choices
    at = answers.snapshot(scene.config, None)
    moving, topics = readers(at, scene.plan, scene.scope)
    which = WhichGroups(
        are_recorded=scene.scope.records_group,
        moving=moving,
        named=None if choices.groups is None else frozenset(choices.groups),
        accepted=frozenset(choices.accepted),
    )
    period_s = choices.watch_seconds
    seen = (
        SeenCommits(SystemClock(), period_s, commit_intervals(at, scene.plan.from_cluster))
        if period_s
        else None
    )
    return GroupsAtRest(
        scene.source, topics, which, lambda: _recorded(scene), seen, lambda: _fenced_ends(scene)
    )


def _recorded(scene: Scene) -> Iterator[Standing]:
    """What the ledger has of the former source's groups by now."""
    yield from scene.state.last_checkpoints(scene.plan.from_cluster)
    yield from scene.state.last_share_offsets(scene.plan.from_cluster)


def _fenced_ends(scene: Scene) -> dict[tuple[str, int], int]:
    """Of the partitions of the plan's topics where it is proven that nothing comes any more."""
    topic_ids = {(one.source_topic, one.source_topic_id) for one in scene.plan.topics}
    standing = [one.fence for one in scene.state.fences().at(scene.plan.from_cluster)]
    return {
        (fence.topic, one.partition): one.end
        for fence in standing
        if fence.proof == Proof.PROVEN and (fence.topic, fence.topic_id) in topic_ids
        for one in fence.partitions
    }


def settle_flows(scene: Scene, waits: Waits) -> StepResult:
    """What each flow had copied last and nobody has recorded.

    A driver that was shut out has recorded it when it stopped, or was found dead. Of others nobody knows. Where nothing
    is promoted, beside a source that answers, the flow itself finds it.
    """
    if scene.is_source_there() and not scene.is_promoted:
        return StepResult(f"{scene.plan.from_cluster} answers: the flow itself finds what it copied last", {})
    words, facts = [], {}
    for name in scene.plan.flows:
        if is_at_work(scene.config.flow(name), scene.state.last_claim(writer_of(name))):
            may_live = f"{_MAY_LIVE} mirror-ledger settle {name} --reason WHY"
            words.append(f"{name}: {_STOPPED if scene.is_promoted else may_live}")
            continue
        settled = settle_flow(
            scene.config,
            name,
            reason=scene.asked.reason,
            ticket=scene.asked.ticket,
            progress=waits,
            operation_id=scene.operation_id,
            is_promoted=scene.is_promoted,
        )
        if settled.refused:
            refused = "; ".join(f"{pair.target.topic} {why}" for pair, why in settled.refused.items())
            raise PreconditionError(f"{settled.words}: {refused}")
        words.append(settled.words)
        facts[name] = settled.facts()
    return StepResult("; ".join(words), facts)


def _is_recorded(config: MirrorConfig, scene: Scene, alias: str) -> bool:
    settings = recorder_settings(config, alias)
    verdict = verdict_here(
        scene.state.last_claim(recorder_of(alias)),
        LocalProcesses(),
        now_ms=SystemClock().now_ms(),
        heartbeat_ms=int(settings.heartbeat_seconds * 1000),
    )
    return verdict is RoleVerdict.IN_USE
