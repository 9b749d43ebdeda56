"""Plans, and a stage on which they are carried out in memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ledger.changeover.applying import StepHooks
from ledger.changeover.plans import (
    APPLY_KINDS,
    Applies,
    Apply,
    ChangeoverKind,
    Choices,
    Plan,
    PlannedTopic,
    StepName,
    steps_of,
)
from ledger.changeover.receipts import (
    Applying,
    ApplyRecord,
    Beside,
    StepReports,
    StepResult,
    Waits,
    nothing_beside,
)
from ledger.facts.operations import Why
from ledger.facts.roles import APPLY_WRITER
from ledger.facts.tables import Row
from ledger.machine import Hooks
from ledger.store.session import APPLY_TABLES, ClaimedOperations, WriterSession
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.rows import MemoryRows
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import row

ORDERS = PlannedTopic(flow="flow", source_topic="orders", source_topic_id="E1", topic="orders", topic_id="W1")


def plan(kind: ChangeoverKind = ChangeoverKind.SWITCHOVER, **changed: Any) -> Plan:
    values = {
        "kind": kind,
        "from_cluster": "east",
        "from_cluster_id": "E",
        "to_cluster": "west",
        "to_cluster_id": "W",
        "topics": (ORDERS,),
        "choices": Choices(),
        "hooks": {},
        "direction": None,
        "permissions": "none",
        "steps": steps_of(kind, is_promoted=True),
        "blockers": (),
    }
    return Plan(**{**values, **changed})


class Crash(BaseException):
    """The process ends here: nothing of ours catches it."""


@dataclass
class Stage:
    """Each step sets its mark once, however often it is carried out; `crash` is called at each moment of each step.

    `hooks` None: hooks are not run, and have done what they should.
    """

    plan: Plan
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    clock: FakeClock = field(default_factory=FakeClock)
    marks: dict[StepName, int] = field(default_factory=dict)
    lines: list[tuple[StepName, str]] = field(default_factory=list)
    crash: Callable[[StepName, str], None] = lambda _step, _moment: None
    failing: dict[StepName, Exception] = field(default_factory=dict)
    hooks: Hooks | None = None
    beside: Beside = nothing_beside

    def apply(self, host: str = "host:1:1:") -> None:
        """As a process that starts now."""
        former = self.applies().open()
        claimed = {**claim(), "host": host}
        session = WriterSession.claimed(
            MemoryFactLog(self.ledger, self.clock), APPLY_WRITER, APPLY_TABLES, claimed
        )
        with session:
            operations = ClaimedOperations(operator="ana")
            operations.begin(session)
            record = ApplyRecord(
                operations,
                self.clock,
                Why("a fire", "OPS-1", former.operation_id if former else f"operation-{session.epoch}"),
            )
            actions = {step: self._action(step) for step in StepName}
            applying = Applying(record, actions, self._hook, self._told(), self.beside)
            applying.carry_out(self.plan, former, host=host)
            session.release()

    def applies(self) -> Applies:
        return Applies.of_rows(MemoryRows(self.ledger).rows("operations", [("kind", "in", APPLY_KINDS)]))

    @property
    def last(self) -> Apply:
        return list(self.applies().by_id.values())[-1]

    def _action(self, step: StepName) -> Callable[[Waits], StepResult]:
        def act(waits: Waits) -> StepResult:
            self.crash(step, "before")
            waits("at it")
            if step in self.failing:
                raise self.failing[step]
            self.marks[step] = self.marks.get(step, 0) + 1
            self.crash(step, "after")
            return StepResult(f"{step} is done", {"mark": True})

        return act

    def _hook(self, step: StepName, command: str, waits: Waits) -> Mapping[str, Any]:
        self.crash(step, "hook")
        waits("it runs")
        if self.hooks is not None:
            return StepHooks(self.hooks, self.plan, "operation-1").run(step, command, waits)
        return {"exit_code": 0, "output": f"ran {command}"}

    def _told(self) -> StepReports:
        return StepReports(
            begins=lambda step: self.lines.append((step, "begins")),
            waits=lambda step, words: self.lines.append((step, words)),
            ends=lambda step, words, _is_done: self.lines.append((step, words)),
        )


def with_hooks(of: Plan, **hooks: str) -> Plan:
    return replace(of, hooks={StepName(step): command for step, command in hooks.items()})


def claim() -> Row:
    """A row of `writers` without its stamp."""
    whole = row(
        "writers",
        event="claimed",
        flow=None,
        source_cluster="east",
        source_cluster_id="E",
        target_cluster="west",
        target_cluster_id="W",
        producer_id=None,
    )
    return {
        name: value
        for name, value in whole.items()
        if name not in {"writer", "writer_epoch", "round", "recorded_at_ms"}
    }
