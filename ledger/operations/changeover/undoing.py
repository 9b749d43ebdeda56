"""Undoing what an apply has changed, step by step in reverse order, until applications write at the target.

Each step reads what is there, undoes what is still as it was made, and reads back. So who was interrupted begins
again. Once it has begun the apply cannot be continued any more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from ledger.domain.changeover.applies import Applies, Apply, ApplyState, undo_command
from ledger.domain.changeover.plans import Plan
from ledger.domain.changeover.steps import StepName
from ledger.domain.operations.promotion.changeovers import ApplyAlive, UndoBegun, Undone
from ledger.errors import MirrorLedgerError, PreconditionError, ShutOutError
from ledger.operations.changeover.applying import (
    OPERATION,
    Action,
    ApplyRecord,
    Beside,
    StepResult,
    Told,
    name_in,
    nothing_beside,
)
from ledger.operations.directions import planned_way

TAKEN_BACK = (StepName.FENCE, StepName.PROMOTE, StepName.HAND_OVER, StepName.MOVE_GROUPS)
"""Steps that change something that can be undone. What others have recorded is so, and stays."""

_LEFT = "left_as_it_is"


def to_take_back(
    applies: Applies, operation_id: str, plan_of: Callable[[str], Plan]
) -> tuple[Apply, Plan] | None:
    """The apply and its plan; None: it was undone before.

    Raises `UsageError` for an operation that nobody has begun, `PreconditionError` where a later one about the same
    topics was not undone, or another apply is open.
    """
    found = applies.the(operation_id)
    if found.state is ApplyState.UNDONE:
        return None
    open_one = applies.open()
    if open_one is not None and open_one.operation_id != operation_id:
        raise PreconditionError(
            f"operation {open_one.operation_id} (plan {open_one.plan_id}) has not come to its end; nothing was done. "
            f"Continue it, or take it back first: {undo_command(open_one.operation_id)}"
        )
    plan = plan_of(found.plan_id)
    ids = _topic_ids(plan)
    names = list(applies.by_id)
    for later in names[names.index(operation_id) + 1 :]:
        one = applies.by_id[later]
        if one.state is not ApplyState.UNDONE and ids & _topic_ids(plan_of(one.plan_id)):
            raise PreconditionError(
                f"operation {later} came after it and is about the same topics; nothing was done. Take that back "
                f"first: {undo_command(later)}"
            )
    return found, plan


def _topic_ids(plan: Plan) -> set[str]:
    return {topic_id for one in plan.topics for topic_id in (one.topic_id, one.source_topic_id)}


def require_nobody_at_work(plan: Plan, reasons: Sequence[str]) -> None:
    """Raise `PreconditionError` where applications are at work at the target, or may be."""
    if not reasons:
        return
    lines = "\n  ".join(reasons)
    raise PreconditionError(
        f"{plan.to_cluster} is in use since; nothing was undone:\n  {lines}\nThe way back is a plan in the other "
        f"direction: {planned_way(plan.to_cluster, plan.from_cluster)}"
    )


class OnFailure(StrEnum):
    """What becomes of an undo when a step cannot be undone."""

    STOP = "stop"  # it can be continued
    LEAVE = "leave"  # the step is left as it is and named, and the undo comes to its end


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What became of each step that had begun, in words; `left`: those that stand as the apply made them."""

    words: Mapping[str, str]
    left: tuple[StepName, ...]


@dataclass(frozen=True, slots=True)
class Undoing:
    """`actions`: how each of `TAKEN_BACK` is undone."""

    record: ApplyRecord
    actions: Mapping[StepName, Action]
    told: Told
    on_failure: OnFailure = OnFailure.STOP
    beside: Beside = nothing_beside

    def take_back(self, of: Apply, plan: Plan, *, host: str) -> TakenBack:
        """Each step that had begun, in reverse order. Raises what a step raises, unless that is left."""
        self.record.add(
            UndoBegun(plan_id=plan.plan_id, host=host, is_continued=of.state is ApplyState.UNDOING)
        )
        done: dict[StepName, StepResult] = {}
        for step in reversed(plan.steps):
            if step in TAKEN_BACK and step in of.begun:
                stands = step is StepName.FENCE and _is_left(done.get(StepName.PROMOTE))
                done[step] = self._fence_left(plan) if stands else self._undone(of, step)
        words = {str(step): result.words for step, result in done.items()}
        self.record.add(
            Undone(steps=words, read_back={str(step): dict(one.read_back) for step, one in done.items()})
        )
        return TakenBack(words, tuple(step for step, result in done.items() if _is_left(result)))

    def _fence_left(self, plan: Plan) -> StepResult:
        """Applications would write at both sides."""
        why = (
            f"{plan.to_cluster} is promoted still, and without its fence {plan.from_cluster} would be written to as "
            f"well. First mirror-ledger demote {plan.to_cluster} --over {plan.from_cluster} --reason WHY, "
            "then mirror-ledger "
            f"unfence {plan.from_cluster} --reason WHY"
        )
        self.told.begins(StepName.FENCE)
        self.told.ends(StepName.FENCE, why, False)
        return _left(why)

    def _undone(self, of: Apply, step: StepName) -> StepResult:
        self.told.begins(step)
        self.record.add(ApplyAlive(step=step))
        try:
            with self.beside(partial(self.record.alive, step)):
                result = self.actions[step](partial(self._waits, step))
        except ShutOutError:
            raise
        except MirrorLedgerError as error:
            name_in(error, OPERATION, of.operation_id)
            self.told.ends(step, str(error), False)
            if self.on_failure is OnFailure.STOP:
                raise
            return _left(str(error))
        self.told.ends(step, result.words, True)
        return result

    def _waits(self, step: StepName, words: str) -> None:
        self.told.waits(step, words)
        self.record.alive(step)


def _left(why: str) -> StepResult:
    return StepResult(f"left as it is: {why}", {_LEFT: why})


def _is_left(result: StepResult | None) -> bool:
    return result is not None and _LEFT in result.read_back
