"""Steps once everything is in place: audited, applications started, measured, the way back opened, reported."""

from contextlib import suppress

from ledger.app.acts.directions import change_direction
from ledger.app.changeover.at_target import handed_over, lift_fences
from ledger.app.changeover.auditing import audit_rest
from ledger.app.changeover.planning import read_plan
from ledger.app.changeover.scene import Scene
from ledger.app.changeover.seeing import reverse_flows
from ledger.app.changeover.sheets import moved_by
from ledger.domain.changeover.downtimes import compared, compared_words
from ledger.domain.changeover.plans import FenceChoice
from ledger.domain.changeover.steps import StepName
from ledger.domain.hand_over.receipts import Purpose
from ledger.domain.objectives import Figure, Objective, objections
from ledger.domain.operations.directions import Demoted
from ledger.domain.words.count_words import counted
from ledger.errors import PreconditionError
from ledger.operations import directions
from ledger.operations.changeover.applying import StepResult, Waits
from ledger.operations.changeover.losses import Took
from ledger.operations.changeover.waiting import first_progress
from ledger.operations.figures.failover_loss import loss_words

_RULES_ARE_KNOWN_WITHIN_S = 5.0


def audit(scene: Scene, _waits: Waits) -> StepResult:
    """Every invariant of the ledger holds, as of when the mirror had stopped, else of now; that runs since `cut`."""
    beside = scene.kept.audited_rest
    at, passed = audit_rest(scene.config, scene.kept.audit) if beside is None else beside.result()
    return StepResult(f"{counted(len(passed), 'audit')} passed", {"audits": passed, "cut": at.cut.token})


def start_applications(scene: Scene, waits: Waits) -> StepResult:
    """By the hook that ran before, or a person: from here on applications write at the target."""
    if StepName.START_APPLICATIONS in scene.plan.hooks:
        return StepResult("started by the hook", {"by": "hook"})
    said = scene.asked.confirm(f"applications are started at {scene.plan.to_cluster}", waits)
    return StepResult(said, {"by": said})


def groups_progress(scene: Scene, waits: Waits) -> StepResult:
    """When each group that was moved commits first at the target."""
    seconds = scene.plan.choices.progress_seconds
    if not seconds:
        return StepResult("not waited for: --wait-progress", {})
    moved = moved_by(scene.config, scene.operation_id)
    return first_progress(scene.target, moved, scene.patience(seconds), waits)


def reverse(scene: Scene, waits: Waits) -> StepResult:
    """The former source gets what copying back needs; says what is to be run so that it gets what is written now."""
    plan = scene.plan
    if not plan.choices.reverse:
        return StepResult("nothing is to be mirrored back", {})
    if plan.choices.fence is FenceChoice.SHUT:
        # A topic that takes no batch takes none of the mirror's; what keeps producers out is that they were moved.
        lift_fences(scene, plan.from_cluster, scene.plan.source_names, waits)
    ready = handed_over(scene, Purpose.MIRROR, waits)
    given_up = _give_up(scene)
    flows = [scene.config.flow(name) for name in plan.flows]
    back = sorted(set(reverse_flows(scene.config, flows).values()))
    commands = [f"mirror-ledger run {name} --from-cut {scene.operation_id}" for name in back]
    lacking = _not_writable(scene, waits, is_opened=given_up is not None)
    first = f"grant the mirror WRITE on {', '.join(lacking)} of {plan.from_cluster}, then " if lacking else ""
    words = "; ".join(
        [ready.words, *filter(None, [given_up]), f"to mirror back: {first}{'; '.join(commands)}"]
    )
    return StepResult(words, {"commands": commands, "not_writable": lacking, **ready.facts})


def _give_up(scene: Scene) -> str | None:
    """A source that applications came to before is promoted no more: its mirror may write there again, behind the cut,
    when all has been handed over. Until now neither direction wrote. None: it was not promoted."""
    way = scene.source_pair
    if directions.is_done(way, Demoted, scene.state.directions()):
        return None
    made = change_direction(
        scene.config,
        Demoted,
        way,
        cut_operation=scene.operation_id,
        reason=scene.asked.reason,
        ticket=scene.asked.ticket,
        operation_id=scene.operation_id,
    )
    return made.words


def _not_writable(scene: Scene, waits: Waits, *, is_opened: bool) -> list[str]:
    """Topics of the source that the mirror may not write to; brokers learn a little later that a rule was removed."""

    def lacking() -> list[str]:
        return sorted(set(scene.plan.source_names) - scene.source.writable_topics(scene.plan.source_names))

    if is_opened:
        with suppress(PreconditionError):
            patience = scene.patience(_RULES_ARE_KNOWN_WITHIN_S)
            patience.until(lambda: ", ".join(lacking()) or None, waits, advice="")
    return lacking()


def report(scene: Scene, _waits: Waits) -> StepResult:
    """What was lost, how long applications had nowhere to write, and what each step took, beside what was forecast."""
    made = read_plan(scene.config, scene.plan.plan_id)
    now, forecast = made.applies.the(scene.operation_id), made.recorded.forecast
    took = Took.of(scene.plan.kind, now)
    loss = now.done[StepName.CUT].read_back["loss"]
    figures = {
        **took.figures,
        **loss,
        "step_seconds": {str(step): round(took_ms / 1000, 3) for step, took_ms in now.took_ms.items()},
    }
    foreseen = compared(forecast["downtime"], figures["step_seconds"]) if "downtime" in forecast else {}
    taken = Figure(
        Objective.MAX_DOWNTIME_SECONDS, took.downtime_s, "this apply", is_at_least=took.is_at_least
    )
    missed = [words for _, words in objections(scene.config.allowed, [taken])]
    words = [loss_words(loss), took.words, *([compared_words(foreseen)] if foreseen else []), *missed]
    return StepResult("; ".join(words), {**figures, "forecast": foreseen})
