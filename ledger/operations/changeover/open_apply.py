"""An apply, or its undoing, that has begun and has not come to its end: producers may be stopped, the source fenced."""

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.domain.changeover.applies import Apply, ApplyState, apply_command, undo_command
from ledger.domain.changeover.plans import Plan
from ledger.domain.changeover.steps import StepName
from ledger.domain.words.time_words import instant


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApply:
    """What `status` says before all else, until it is ended.

    `step`: the one that it stands at, None: it began none; `failed`: why that failed, in words, None: it did not.
    `so_far`: what of it holds now, in words. `is_at_work`: whether its process is alive, None: nobody can tell.
    """

    operation_id: str
    plan_id: str
    kind: str
    from_cluster: str
    to_cluster: str
    flows: tuple[str, ...]
    state: str
    operator: str
    reason: str | None
    begun_at_ms: int
    last_recorded_at_ms: int
    step: str | None
    failed: str | None
    so_far: tuple[str, ...]
    is_at_work: bool | None

    @classmethod
    def of(cls, plan: Plan, one: Apply, *, last_recorded_at_ms: int, is_at_work: bool | None) -> "OpenApply":
        reached = [step for step in plan.steps if step in one.begun or step in one.done]
        step = next((at for at in reached if at in one.failed), reached[-1] if reached else None)
        return cls(
            operation_id=one.operation_id,
            plan_id=one.plan_id,
            kind=str(plan.kind),
            from_cluster=plan.from_cluster,
            to_cluster=plan.to_cluster,
            flows=plan.flows,
            state=str(one.state),
            operator=one.operator,
            reason=one.reason,
            begun_at_ms=one.begun_at_ms,
            last_recorded_at_ms=last_recorded_at_ms,
            step=None if step is None else str(step),
            failed=None if step is None or step not in one.failed else one.failed[step].words,
            so_far=tuple(_so_far(plan, one)),
            is_at_work=is_at_work,
        )

    @property
    def what(self) -> str:
        """`switchover from east to west`."""
        return f"{self.kind} from {self.from_cluster} to {self.to_cluster}"

    @property
    def words(self) -> str:
        """Why `status --check` does not pass, with the first command to type."""
        is_undone = self.state == ApplyState.UNDOING
        how = "is being undone, and has not come to an end" if is_undone else "has begun and has not ended"
        at = "" if self.step is None or is_undone else f", at step {self.step}"
        held = f": {', '.join(self.so_far)}" if self.so_far else ""
        return f"{self.what} {how}{at}, since {instant(self.begun_at_ms)}{held}; {self.commands[0]}"

    @property
    def commands(self) -> tuple[str, ...]:
        """What continues it, and what undoes it."""
        undo = undo_command(self.operation_id)
        if self.state == ApplyState.UNDOING:
            return (undo,)
        return (apply_command(self.plan_id), undo)


def _so_far(plan: Plan, one: Apply) -> Sequence[str]:
    """While it is being undone nothing of it is known to hold."""
    if one.state is ApplyState.UNDOING:
        return ()
    held = {
        StepName.STOP_PRODUCERS: "producers are stopped",
        StepName.FENCE: f"{plan.from_cluster} is fenced",
        StepName.PROMOTE: f"{plan.to_cluster} is promoted",
        StepName.START_APPLICATIONS: "applications were started",
    }
    return [words for step, words in held.items() if step in one.done]
