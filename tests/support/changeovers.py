"""Plans: what they are made from as it is seen, and a stage on which they are carried out in memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ledger.changeover.applying import run_step_hook
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
from ledger.changeover.waiting import Patience
from ledger.facts.changeovers import ApplyClaimed
from ledger.facts.operations import Why
from ledger.facts.roles import APPLY_WRITER
from ledger.facts.syncs import FlowPosition, Position
from ledger.facts.tables import Row
from ledger.machine import Hooks
from ledger.store.session import APPLY_TABLES, ClaimedOperations, WriterSession
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.rows import MemoryRows
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import row

# -- Carried out in memory -------------------------------------------------------------------------

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
            is_continued = former is not None
            first = ApplyClaimed(plan_id=self.plan.plan_id, host=host, is_continued=is_continued)
            applying.carry_out(self.plan, former, first)
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
            return run_step_hook(self.hooks, self.plan, "operation-1", step, command, waits)
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


# -- Steps that wait -------------------------------------------------------------------------------


@dataclass
class Room:
    """A cluster with a topic of two partitions, and what happens while somebody sleeps."""

    clock: FakeClock = field(default_factory=FakeClock)
    said: list[str] = field(default_factory=list)
    happens: list[Callable[[], None]] = field(default_factory=list)
    each_second: Callable[[int], None] = lambda _second: None
    cluster: MemoryCluster = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = MemoryCluster("east", self.clock)
        self.cluster.create_topic("orders", partitions=2, replication_factor=1, configuration={})

    def sleep(self, seconds: float) -> None:
        before, self.clock.now_s = self.clock.now_s, self.clock.now_s + seconds
        for second in range(int(before) + 1, int(self.clock.now_s) + 1):
            self.each_second(second - 1_000)
        if self.happens:
            self.happens.pop(0)()

    def patience(self, seconds: float = 5.0) -> Patience:
        return Patience(self.clock, self.sleep, seconds)

    @property
    def topic(self) -> PlannedTopic:
        topic_id = self.cluster.topic_by_name["orders"].topic_id
        return PlannedTopic(
            flow="flow", source_topic="orders", source_topic_id=topic_id, topic="orders", topic_id="W"
        )

    def at(self, partition: int, offset: int) -> FlowPosition:
        return FlowPosition(
            source_topic="orders",
            source_topic_id=self.topic.source_topic_id,
            partition=partition,
            target_topic="orders",
            target_topic_id="W",
            position=Position(source_offset=offset, target_offset=offset, next_sequence=offset),
        )

    def write(self, partition: int) -> None:
        batch = application_batch([content(b"k", b"v")] * 3, [1] * 3)
        self.cluster.log("orders", partition).append(batch, now_ms=1)
