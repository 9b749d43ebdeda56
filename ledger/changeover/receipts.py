"""Carrying out a plan: step by step, each with a receipt, continued where an earlier process ended.

Each step reads what is there, does what is lacking, and reads back. So a step that was interrupted is carried out again
from its beginning. One process at a time: it claims the writer `apply`, and every row of its own is stamped with that
claim, so who was taken for dead begins no further step.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from ledger.changeover.plans import Apply, Plan, StepName
from ledger.clock import Clock
from ledger.errors import MirrorLedgerError, ShutOutError, StepRefusedError
from ledger.facts.changeovers import (
    ApplyAlive,
    ApplyClaimed,
    ApplyEnded,
    ApplyResult,
    StepBegun,
    StepDone,
    StepFailed,
)
from ledger.facts.operations import OperationContent, Why
from ledger.facts.state import OperationLog
from ledger.words import without_figures

ALIVE_EVERY_S = 10.0
"""How often a process that carries out a plan shows that it is alive, at least while a step waits."""

_UNTIL_THE_CUT = (
    *(StepName.CHECK, StepName.RECORD, StepName.FENCE),
    *(StepName.DRAIN, StepName.STOP_GROUPS, StepName.SHUT_OUT),
)
"""What may no longer be so when an apply is continued before it has its cut: these steps are carried out again."""

PLAN_ID, OPERATION = "PLAN_ID", "OPERATION"
"""How messages of steps name what is carried out, in commands: a step does not know it."""


def _is_repeated(step: StepName, former: Apply) -> bool:
    """What may be so no longer when an apply is continued; groups are set again until applications may have started:
    what they have read meanwhile where they leave, and what was set to something else, is set right."""
    if step is StepName.CATCH_UP:
        return StepName.STOP_PRODUCERS not in former.begun
    if step in _UNTIL_THE_CUT:
        return StepName.CUT not in former.done
    return step is StepName.MOVE_GROUPS and StepName.START_APPLICATIONS not in former.acted


Waits = Callable[[str], None]
"""Called by a step while it waits, with how far it is."""


def name_in(error: MirrorLedgerError, placeholder: str, name: str) -> None:
    """Have the commands of a message say of which plan or operation they are."""
    error.lines = tuple(line.replace(placeholder, name) for line in error.lines)
    error.args = ("\n".join(error.lines),)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What came of a step: a line for people, and what was read back, for the receipt. Never a secret."""

    words: str
    read_back: Mapping[str, Any] = field(default_factory=dict)


Action = Callable[[Waits], StepResult]
Hook = Callable[[StepName, str, Waits], Mapping[str, Any]]
"""Runs the external command of a step; returns what of it the receipt keeps, raises when it failed."""


@dataclass(frozen=True, slots=True)
class StepReports:
    """Where people follow it: a step begins, says how far it is, and ends."""

    begins: Callable[[StepName], None]
    waits: Callable[[StepName, str], None]
    ends: Callable[[StepName, str, bool], None]


class ApplyRecord:
    """The rows of one apply."""

    def __init__(self, operations: OperationLog, clock: Clock, why: Why):
        self._operations = operations
        self._clock = clock
        self._why = why
        self._last = clock.monotonic()
        self._waits: tuple[str | None, str] = None, ""
        self._adding = Lock()

    def add(self, content: OperationContent) -> None:
        """Raises `ShutOutError` when another process carries out a plan by now. Threads may add beside each other."""
        with self._adding:
            self._last = self._clock.monotonic()
            self._operations.record_parts([content], self._why)

    def alive(self, step: StepName, waits: str | None = None) -> None:
        """A row when the step waits for something else than before (None: it does not say), or there was none for a
        while."""
        before = self._waits if self._waits[0] == step else (step, "")
        self._waits = before if waits is None else (step, waits)
        is_another = without_figures(before[1]) != without_figures(self._waits[1])
        if is_another or self._clock.monotonic() - self._last >= ALIVE_EVERY_S:
            self.add(ApplyAlive(step=step, waits=self._waits[1]))


Beside = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""Does something again and again beside a body, every few seconds."""


def nothing_beside(_act: Callable[[], None]) -> AbstractContextManager[None]:
    """For who has one thread alone."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Applying:
    """What carrying out needs: actions by step, hooks, and where it is recorded and followed.

    `beside`: how a process shows that it is alive in a step that says nothing for long.
    """

    record: ApplyRecord
    actions: Mapping[StepName, Action]
    hook: Hook
    reports: StepReports
    beside: Beside = nothing_beside

    def carry_out(self, plan: Plan, former: Apply | None, claimed: ApplyClaimed) -> None:
        """All steps of the plan that `former` has no receipt of, in order. `claimed`: what is recorded first.

        Raises what a step raises, after it is recorded as failed: the apply is open then, and can be continued.
        """
        self.record.add(claimed)
        figures: Mapping[str, Any] = {}
        for step in plan.steps:
            receipt = None if former is None else former.done.get(step)
            if former is not None and receipt is not None and not _is_repeated(step, former):
                self.reports.ends(step, f"done before: {receipt.words}", True)
                figures = receipt.read_back
                continue
            figures = self._carry_out(plan, step).read_back
        self.record.add(ApplyEnded(result=ApplyResult.DONE, words="all steps are done", figures=figures))

    def _carry_out(self, plan: Plan, step: StepName) -> StepResult:
        self.reports.begins(step)
        self.record.add(StepBegun(step=step))
        hook: Mapping[str, Any] | None = None
        try:
            command = None if step is StepName.FENCE else plan.hooks.get(step)
            waits = partial(self._waits, step)
            with self.beside(partial(self.record.alive, step)):
                if command is not None:
                    hook = self.hook(step, command, waits)
                result = self.actions[step](waits)
        except ShutOutError:
            raise
        except MirrorLedgerError as error:
            name_in(error, PLAN_ID, plan.plan_id)
            self.reports.ends(step, str(error), False)
            did_nothing = hook is None and isinstance(error, StepRefusedError)
            self.record.add(StepFailed(step=step, words=str(error), did_nothing=did_nothing))
            self.record.add(ApplyEnded(result=ApplyResult.FAILED, words=f"{step}: {error}"))
            raise
        self.record.add(StepDone(step=step, words=result.words, read_back=result.read_back, hook=hook))
        self.reports.ends(step, result.words, True)
        return result

    def _waits(self, step: StepName, words: str) -> None:
        self.reports.waits(step, words)
        self.record.alive(step, words)
