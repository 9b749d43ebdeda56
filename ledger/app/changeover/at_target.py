"""Steps at the target: promoted, closed to the mirror, cut, handed over, with its groups in place."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ledger.app import answers
from ledger.app.acts.cut import cut_of_pair
from ledger.app.acts.directions import change_direction
from ledger.app.acts.fencing import unfence_topics
from ledger.app.acts.hand_over import Asked as AskedHandOver
from ledger.app.acts.hand_over import hand_over
from ledger.app.acts.shut_out import shut_out
from ledger.app.changeover.auditing import audit_rest_beside
from ledger.app.changeover.before_cut import drain_source, groups_at_rest
from ledger.app.changeover.scene import Scene
from ledger.app.changeover.seeing import losses_of
from ledger.app.changeover.sheets import places_of, record_sheets
from ledger.app.changeover.written import mirrors_at
from ledger.app.position_sheets import Reasons, set_positions
from ledger.domain.changeover.applies import apply_command
from ledger.domain.changeover.blockers import BlockerCode
from ledger.domain.changeover.steps import ChangeoverKind, StepName
from ledger.domain.facts import TopicPartition
from ledger.domain.hand_over.receipts import Purpose
from ledger.domain.offsets.cut_offsets import Cut
from ledger.domain.operations.directions import Promoted
from ledger.errors import ClusterUnavailableError, PreconditionError, UnsafeError
from ledger.operations import directions
from ledger.operations.changeover.applying import StepResult, Waits
from ledger.operations.changeover.losses import require_all_copied
from ledger.operations.changeover.written_behind import application_offsets
from ledger.operations.fencing.lifting import AskedLifting
from ledger.operations.fencing.parts import UnfenceResult
from ledger.operations.figures.failover_loss import loss_figures, loss_words, of_applications
from ledger.operations.groups.outcomes import Outcome
from ledger.operations.groups.position_sheet import PositionSheet
from ledger.operations.hand_over.carrying_out import Ready
from ledger.reports.rendering import oddities


def promote(scene: Scene, waits: Waits) -> StepResult:
    """Direction changes, unless it has already; not before all is copied that has come to the source meanwhile."""
    if not scene.is_promoted:
        scene.require_no_later_topics()
        if StepName.DRAIN in scene.plan.steps:
            drain_source(scene, waits)
    made = change_direction(
        scene.config,
        Promoted,
        scene.promoted_pair,
        no_reverse=not scene.plan.choices.reverse,
        is_exchange=True,
        reason=scene.asked.reason,
        ticket=scene.asked.ticket,
        operation_id=scene.operation_id,
    )
    return StepResult(made.words, {"is_new": made.operation_id is not None})


def cut(scene: Scene, _waits: Waits) -> StepResult:
    """The ends of both sides, where the maps stand, and what of the former source is not at the target.

    Raises `PreconditionError` where that is anything, of a switchover behind which nothing is copied any more.
    """
    if StepName.PROMOTE in scene.plan.steps:
        scene.require_no_later_topics()  # again: now no driver begins with any
        scene.kept.audited_rest = audit_rest_beside(scene.config, scene.kept.audit)
    pair = directions.Pair(scene.plan.to_cluster, scene.plan.from_cluster, scene.plan.target_names)
    taken = cut_of_pair(scene.config, pair, operation_id=scene.operation_id)
    figures = _losses(scene, taken)
    if scene.plan.kind is ChangeoverKind.SWITCHOVER and StepName.PROMOTE in scene.plan.steps:
        require_all_copied(figures, source=scene.plan.from_cluster, operation_id=scene.operation_id)
    return StepResult(f"{taken.words}; {loss_words(figures)}", {**taken.facts, "loss": figures})


def _losses(scene: Scene, taken: Cut) -> dict[str, Any]:
    """Figures of the loss; where the cut has read that all is copied nothing else is asked, for applications wait."""
    topic_ids = {(one.flow, one.source_topic): one.source_topic_id for one in scene.plan.topics}
    is_planned = scene.plan.kind is ChangeoverKind.SWITCHOVER
    if is_planned and (sources := taken.sources_copied(topic_ids)) is not None:
        read_at_ms = [at.read_at_ms for at in sources if at.read_at_ms is not None]
        counted = {"partitions": len(sources), "source_read_at_ms": min(read_at_ms, default=None)}
        return {**loss_figures([]), **counted}
    at = answers.snapshot(scene.config, None)
    found = losses_of(at, scene.pair, at_ms=scene.begun_at_ms, cut=taken)
    left: list[Mapping[str, Any]] = scene.scope.losses(found)
    return loss_figures([_of_applications(scene, row) for row in left] if is_planned else left)


def _of_applications(scene: Scene, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a source that answers what lies behind the map may be a mirror's, or markers: no loss."""
    if not row["records"]:
        return row
    at = TopicPartition(row["source_topic"], row["source_topic_id"], row["partition"])
    is_mirror = mirrors_at(scene.state, scene.plan.from_cluster_id)
    try:
        return of_applications(
            row, application_offsets(scene.source, at, row["copied_to"], row["known_end"], is_mirror)
        )
    except ClusterUnavailableError:
        return row


def move_groups(scene: Scene, waits: Waits) -> StepResult:
    """Every group continues at the target where it has to; raises when one does not, and the others do.

    Where the former source answers its commits stood still when the groups were stopped, and have to stand there still:
    an apply may be continued much later. Here they are watched once they are set: a consumer that assigned itself
    partitions commits over them.
    """
    choices = scene.plan.choices
    if StepName.STOP_GROUPS in scene.plan.steps:
        with suppress(ClusterUnavailableError):
            groups_at_rest(scene).require_still_at_rest(scene.patience(choices.groups_seconds), waits)
    reasons = Reasons(scene.asked.reason, scene.asked.ticket, scene.operation_id)
    at = answers.snapshot(scene.config, None)
    if scene.kept.audit is not None:
        at = scene.kept.audit.told(at)
    quiet_s = choices.watch_seconds
    after = scene.patience(quiet_s).watch(quiet_s, waits) if quiet_s else None
    asked = places_of(scene.config, scene.plan, scene.scope)
    _, done, why = set_positions(
        scene.config,
        at,
        asked,
        reasons,
        after=after,
        after_where_used=True,
        require_own=scene.require_own,
    )
    if not done.is_complete:
        raise PreconditionError(
            f"not every group continues at {scene.plan.to_cluster}, what could be set is set:\n  "
            + "\n  ".join([*done.left_lines(), *done.blockers])
            + f"\nThen continue: {apply_command(scene.plan.plan_id)}. What it does not set, people "
            f"do, for each of these groups: {_by_hand(scene, done)}"
        )
    record_sheets(scene.config, scene.plan.plan_id, done, why, scene.operation_id)
    return StepResult(done.words, done.facts)


def _by_hand(scene: Scene, done: PositionSheet) -> str:
    """The command that sets the first of the groups that are left, with what it needs: what that group commits at the
    target until somebody types it is not overwritten."""
    first = next((one.group_id for one in done.left_out), None)
    of_first = [one for one in done.left_out if one.group_id == first]
    lacking = {status for one in of_first for status in oddities(one.answer)}
    options = [f"--accept {status}" for status in sorted(lacking - set(scene.plan.choices.accepted))]
    if any(one.outcome is Outcome.NEWER for one in of_first):
        options.append("--overwrite-newer")
    way = f"--from {scene.plan.from_cluster} --to {scene.plan.to_cluster}"
    group = "GROUP" if first is None else shlex.quote(first)
    return " ".join([f"mirror-ledger offsets set {way} --group {group}", *options])


def hand_over_to_applications(scene: Scene, waits: Waits) -> StepResult:
    """The target gets the settings and permissions that applications had, and loses the fence that it was left with
    once; what people have to do is named."""
    lifted = _open_to_applications(scene, waits)
    ready = handed_over(scene, Purpose.APPLICATIONS, waits)
    words = ready.words if lifted is None else f"{lifted.words}; {ready.words}"
    return StepResult(words, {**ready.facts, "unfenced": () if lifted is None else lifted.facts})


def _open_to_applications(scene: Scene, waits: Waits) -> UnfenceResult | None:
    """None: nothing of the target was fenced."""
    cluster = scene.plan.to_cluster
    fenced = {one.fence.topic for one in scene.state.fences().at(cluster)} & set(scene.plan.target_names)
    if not fenced:
        return None
    return lift_fences(scene, cluster, sorted(fenced), waits)


def lift_fences(scene: Scene, cluster: str, topics: Sequence[str], waits: Waits) -> UnfenceResult:
    """As a part of the operation."""
    asked = AskedLifting(
        cluster=cluster, topics=tuple(topics), reason=scene.asked.reason, ticket=scene.asked.ticket
    )
    return unfence_topics(scene.config, asked, waits, operation_id=scene.operation_id)


def handed_over(scene: Scene, purpose: Purpose, waits: Waits) -> Ready:
    """What became of it, for the topics of the plan; the mirrors of both clusters are no applications."""
    plan = scene.plan
    return hand_over(
        scene.config,
        AskedHandOver(directions.Pair(plan.to_cluster, plan.from_cluster, scene.plan.target_names), purpose),
        reason=scene.asked.reason,
        ticket=scene.asked.ticket,
        operation_id=scene.operation_id,
        progress=waits,
    )


def shut_out_mirror(scene: Scene, waits: Waits) -> StepResult:
    """Its drivers have stopped, and the cluster lets it write no more; raises where the latter is not proven."""
    choices, target = scene.plan.choices, scene.plan.to_cluster
    done = shut_out(
        scene.config,
        scene.promoted_pair,
        with_markers=choices.abort_marker,
        limit_s=choices.drain_seconds,
        reason=scene.asked.reason,
        ticket=scene.asked.ticket,
        operation_id=scene.operation_id,
        say=waits,
    )
    if done.unproven and not choices.accept_unproven_shut_out:
        raise UnsafeError(
            f"the mirror has stopped, and nothing but the ledger keeps it from {target}: {done.unproven[0].reason}. "
            f"{BlockerCode.MIRROR_NOT_SHUT_OUT.advice}"
        )
    return StepResult(done.words, done.facts)
