"""How far carrying out a plan has come, from its rows of `operations`."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from ledger.domain.changeover.plans import Plan, id_of
from ledger.domain.changeover.steps import ChangeoverKind, StepName
from ledger.domain.operations.content import Row
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.operations.promotion.changeovers import (
    ApplyClaimed,
    ApplyEnded,
    PlanRecorded,
    StepDone,
    StepFailed,
    UndoBegun,
)
from ledger.errors import PreconditionError, UsageError

APPLY_KINDS = (
    OperationKind.APPLY_CLAIMED,
    OperationKind.STEP_BEGUN,
    OperationKind.STEP_DONE,
    OperationKind.STEP_FAILED,
    OperationKind.APPLY_ENDED,
    OperationKind.UNDO_BEGUN,
    OperationKind.UNDONE,
)


def apply_command(plan_id: str) -> str:
    """What is typed to carry out a plan, and to continue that."""
    return f"mirror-ledger apply {plan_id} --reason WHY"


def undo_command(operation_id: str) -> str:
    """What is typed to undo what an operation has done, and to continue that."""
    return f"mirror-ledger undo {operation_id} --reason WHY"


class ApplyState(StrEnum):
    """Of an operation that carries out a plan."""

    OPEN = "open"  # begun, or failed at a step: it can be continued
    DONE = "done"
    UNDOING = "undoing"  # it is being undone, or that was interrupted: it can only be undone
    UNDONE = "undone"


@dataclass(slots=True)
class Apply:
    """One carrying out of a plan; `done`: receipts by step, the last of each. Times of its rows by step.

    `begun`: when a step was begun first, `took_ms`: what it took, all the times that it was carried out to its end.
    `ended_at`: epoch and round of the row that says that it was done, None: it was not.
    """

    operation_id: str
    plan_id: str
    operator: str
    reason: str | None
    ticket: str | None
    begun_at_ms: int
    state: ApplyState = ApplyState.OPEN
    host: str = ""
    begun: dict[StepName, int] = field(default_factory=dict)
    done: dict[StepName, StepDone] = field(default_factory=dict)
    done_at_ms: dict[StepName, int] = field(default_factory=dict)
    took_ms: dict[StepName, int] = field(default_factory=dict)
    _under_way: dict[StepName, int] = field(default_factory=dict)
    failed: dict[StepName, StepFailed] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    ended_at: tuple[int, int] | None = None

    def read(self, row: Row) -> None:
        """The next row of the operation."""
        at_ms = row["recorded_at_ms"]
        match row["kind"]:
            case OperationKind.APPLY_CLAIMED:
                self.host = ApplyClaimed.of_row(row).host
            case OperationKind.STEP_BEGUN:
                step = StepName(json.loads(row["content"])["step"])
                self.begun.setdefault(step, at_ms)
                self._under_way[step] = at_ms
            case OperationKind.STEP_DONE:
                receipt = StepDone.of_row(row)
                step = StepName(receipt.step)
                self.done[step], self.done_at_ms[step] = receipt, at_ms
                if (since_ms := self._under_way.pop(step, None)) is not None:
                    self.took_ms[step] = self.took_ms.get(step, 0) + at_ms - since_ms
                self.failed.pop(step, None)
            case OperationKind.STEP_FAILED:
                failure = StepFailed.of_row(row)
                self.failed[StepName(failure.step)] = failure
            case OperationKind.APPLY_ENDED:
                ended = ApplyEnded.of_row(row)
                self.figures = ended.figures
                is_done = ended.result == "done"
                self.state = ApplyState.DONE if is_done else ApplyState.OPEN
                self.ended_at = (row["writer_epoch"], row["round"]) if is_done else None
            case OperationKind.UNDO_BEGUN:
                self.state, self.host = ApplyState.UNDOING, UndoBegun.of_row(row).host
            case OperationKind.UNDONE:
                self.state = ApplyState.UNDONE


@dataclass(frozen=True, slots=True)
class Applies:
    """All of a ledger, in the order in which they began."""

    by_id: Mapping[str, Apply]

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `APPLY_KINDS`, each writer's in the order of recording."""
        found: dict[str, Apply] = {}
        for row in rows:
            operation_id = row["operation_id"]
            if operation_id not in found and row["kind"] == OperationKind.APPLY_CLAIMED:
                found[operation_id] = Apply(
                    operation_id=operation_id,
                    plan_id=ApplyClaimed.of_row(row).plan_id,
                    operator=row["operator"],
                    reason=row["reason"],
                    ticket=row["ticket"],
                    begun_at_ms=row["recorded_at_ms"],
                )
            if operation_id in found:
                found[operation_id].read(row)
        return cls(found)

    def open(self) -> Apply | None:
        """The one that has begun, or is being undone, and has not come to its end; there is one at most."""
        between = (ApplyState.OPEN, ApplyState.UNDOING)
        return next((one for one in self.by_id.values() if one.state in between), None)

    def of_plan(self, plan_id: str) -> list[Apply]:
        return [one for one in self.by_id.values() if one.plan_id == plan_id]

    def the(self, operation_id: str) -> Apply:
        """Raises `UsageError` for an operation that nobody has begun."""
        if operation_id not in self.by_id:
            raise UsageError(
                f"no plan was carried out by operation {operation_id!r}; nothing was done. mirror-ledger plan list "
                "names those that were; an older copy of a ledger lacks the later ones"
            )
        return self.by_id[operation_id]


def last_downtimes(
    applies: Applies, plans: Iterable[Row], *, from_cluster: str, to_cluster: str
) -> dict[ChangeoverKind, float]:
    """By kind the seconds for which applications had nowhere to write when this direction was last changed so.

    `plans`: rows of that kind. What was undone since counts as well: it was measured. What is only known to have taken
    so long at least does not.
    """
    return {
        kind: one.figures["downtime_seconds"]
        for kind, one in _reported(applies, plans, (from_cluster, to_cluster))
        if one.figures.get("downtime_seconds") is not None and one.figures.get("downtime_bound") is None
    }


def last_step_seconds(
    applies: Applies, plans: Iterable[Row], *, from_cluster: str, to_cluster: str
) -> dict[ChangeoverKind, dict[str, float]]:
    """By kind what each step took when this direction was last changed so."""
    return {
        kind: dict(one.figures["step_seconds"])
        for kind, one in _reported(applies, plans, (from_cluster, to_cluster))
        if "step_seconds" in one.figures
    }


def _reported(
    applies: Applies, plans: Iterable[Row], way: tuple[str, str]
) -> Iterator[tuple[ChangeoverKind, Apply]]:
    """Those of one direction, in the order in which they began."""
    made = {one.plan_id: one.plan for one in map(PlanRecorded.of_row, plans)}
    for one in applies.by_id.values():
        plan = made.get(one.plan_id)
        if plan is not None and (plan["from_cluster"], plan["to_cluster"]) == way:
            yield ChangeoverKind(plan["kind"]), one


def recorded_plan(rows: Iterable[Row], plan_id: str, *, is_begun: bool = False) -> tuple[Plan, PlanRecorded]:
    """The plan of an id, as it was last recorded, from rows of its kind.

    Raises `UsageError` for an id that no plan has, `PreconditionError` for a plan of another program, and where the
    last row of the id is not what the id is the hash of: it is not what people have read. `is_begun`: it was carried
    out in part, so what was read is found behind such a row: the way back has to exist.
    """
    found = [row for row in map(PlanRecorded.of_row, rows) if row.plan_id == plan_id]
    if not found:
        raise UsageError(
            f"the ledger has no plan {plan_id!r}; nothing was done. mirror-ledger plan list names those that it has; "
            "an older copy of a ledger lacks the later ones"
        )
    own = [row for row in found if id_of(row.plan) == plan_id]
    if not own or (found[-1] is not own[-1] and not is_begun):
        raise PreconditionError(
            f"what the ledger holds last as plan {plan_id} is another plan (its content has the id "
            f"{id_of(found[-1].plan)}): not this program has written it, but somebody who may append to the ledger; "
            "nothing was done. mirror-ledger plan list shows who; then plan again"
        )
    try:
        plan = Plan.of_content(own[-1].plan)
    except (KeyError, TypeError, ValueError) as error:
        raise PreconditionError(
            f"plan {plan_id} was made by another version of the program ({error}); nothing was done: plan again"
        ) from error
    return plan, own[-1]
