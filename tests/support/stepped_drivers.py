"""A driver of one flow in memory whose tasks do what a test tells them, step by step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ledger.config.values import FlowConfig, Policy
from ledger.errors import MirrorLedgerError
from ledger.facts.operations import OperationContent
from ledger.facts.state import WriterClaim
from ledger.facts.syncs import OffsetSync, SyncKind
from ledger.facts.tables import Row
from ledger.mirror.assignment import Assignment, Divergence, PartitionResult, Stop, StopCause
from ledger.mirror.continuing import Results, continued
from ledger.mirror.driver import run_flow
from ledger.mirror.progress import RunSummary
from ledger.mirror.rounds import FlowRun
from ledger.store.session import ClaimedOperations, OperatorOperations
from ledger.topics.naming import TailPolicy
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.support.copy_tasks import BOTH_SEEN
from tests.support.ledgers import numbered
from tests.support.memory_flows import Flow

Step = Callable[[Assignment], PartitionResult]


class _Later:
    """An append that is made when somebody waits for it, and not before."""

    def __init__(self, append: Callable[[], None]) -> None:
        self._append: Callable[[], None] | None = append
        self._error: MirrorLedgerError | None = None

    def make(self) -> None:
        append, self._append = self._append, None
        try:
            if append is not None:
                append()
        except MirrorLedgerError as error:
            self._error = error

    def result(self) -> None:
        self.make()
        if self._error is not None:
            raise self._error


class WhenAwaited:
    """Implements `writer_session.AppendExecutor`, as slow as it can be."""

    def __init__(self) -> None:
        self._submitted: list[_Later] = []

    def submit(self, append: Callable[[], None], /) -> _Later:
        self._submitted.append(_Later(append))
        return self._submitted[-1]

    def shutdown(self, *, wait: bool) -> None:
        for append in self._submitted if wait else ():
            append.make()


class AtOnce(WhenAwaited):
    """The same, as quick as it can be."""

    def submit(self, append: Callable[[], None], /) -> _Later:
        later = super().submit(append)
        later.make()
        return later


@dataclass
class Driver:
    """A driver of one flow with one partition; its tasks do what the steps say, then it is asked to stop.

    `last`: what a task does of a partition when it is to end; nothing where none is given.
    """

    steps: Sequence[Step]
    flow: Flow = field(default_factory=Flow)
    policy: Policy = Policy.CONTINUE
    on_tail_lost: TailPolicy | None = None
    until_caught_up: bool = False
    tasks: int = 1
    last: Step | None = None
    executor: Callable[[], WhenAwaited] = AtOnce
    assigned: list[Assignment] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    rounds_s: list[float] = field(default_factory=list)
    jobs: list["SteppedJob"] = field(default_factory=list)
    _left: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = list(self.steps)
        if not self.flow.east.topic_by_name:
            self.flow.source("t")

    def run(self) -> RunSummary:
        flow = FlowConfig(
            name="f",
            source="east",
            target="west",
            topics=(".*",),
            on_loss=self.policy,
            on_source_truncated=self.policy,
            on_tail_lost=self.on_tail_lost,
            tasks=self.tasks,
        )
        fact_log = ToldFacts(self)
        operations = ClaimedOperations(operator="driver", new_id=numbered())
        run = FlowRun(
            flow=flow,
            topics=self.flow.topics(operations=operations),
            source=self.flow.east,
            target=self.flow.west,
            fact_log=fact_log,
            state=MemoryLedgerState(self.flow.ledger),
            operations=operations,
            runner=_Runner(self),
            clock=self.flow.clock,
            executor=self.executor,
            host="host:1:1",
            until_caught_up=self.until_caught_up,
            stop=_StopAfter(["never"] if self.until_caught_up else self._left),
            on_round=lambda _summary: None,
        )
        return run_flow(run)

    def syncs(self) -> list[Row]:
        return list(self.flow.ledger.rows("offset_syncs"))

    def take(self, assignment: Assignment) -> PartitionResult:
        self.assigned.append(assignment)
        return self._left.pop(0)(assignment)


class _Runner:
    """Implements `RoundRunner`: tasks continue as they do, and have nothing more when they are to end."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def run(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> Results:
        raise AssertionError(f"no single round of {seconds} s is asked for: {tasks}")

    def begin(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> "SteppedJob":
        assert all(job.is_over for job in self._driver.jobs), "another task has these partitions"
        self._driver.jobs.append(SteppedJob(self._driver, [list(share) for share in tasks], seconds))
        return self._driver.jobs[-1]


@dataclass
class SteppedJob:
    """Implements `CopyJob`. `rounds`: those that steps say; `begun`: by task what it had first."""

    driver: Driver
    shares: list[list[Assignment]]
    seconds: float
    is_over: bool = False
    rounds: int = 0
    _is_recorded: bool = True
    _is_to_end: bool = False

    def __post_init__(self) -> None:
        self.begun = self.shares

    def next_round(self) -> Results:
        assert not self.is_over
        if self._is_to_end:
            self.is_over = True
            last = self.driver.last or nothing
            return [last(assignment) for share in self.shares for assignment in share]
        assert self._is_recorded, "another round would not be handed over"
        self.rounds += 1
        self.driver.rounds_s.append(self.seconds)
        results = [[self.driver.take(assignment) for assignment in share] for share in self.shares]
        following = [continued(of_share) for of_share in results]
        self.shares = [assignments or [] for assignments in following]
        self.is_over, self._is_recorded = None in following, False
        return [result for of_share in results for result in of_share]

    def recorded(self) -> None:
        self._is_recorded = True

    def end(self) -> None:
        self._is_to_end = True

    def abandon(self) -> None:
        self.is_over = True


class _StopAfter:
    def __init__(self, left: Sequence[object]) -> None:
        self._left = left

    def is_set(self) -> bool:
        return not self._left

    def wait(self, timeout: float | None = None) -> bool:
        raise AssertionError(f"{timeout}: the partition cannot go on, and steps are left")


class ToldFacts(MemoryFactLog):
    def __init__(self, driver: Driver) -> None:
        super().__init__(driver.flow.ledger, driver.flow.clock)
        self._driver = driver

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        super().append(claim, table, round_number, rows)
        self._driver.told += [str(row["kind"]) for row in rows if "kind" in row]


def copied(assignment: Assignment, count: int, *, epoch: int = 1) -> PartitionResult:
    """A task that copied so many records of one leader epoch."""
    start, target = assignment.position.source_offset, assignment.position.target_offset
    sync = OffsetSync(
        source=assignment.source,
        target=assignment.target,
        source_leader_epoch=epoch,
        source_start=start,
        source_end=start + count,
        target_start=target,
        target_end=target + count,
        first_sequence=assignment.position.next_sequence,
        kind=SyncKind.COPIED,
        cause=None,
        records=count,
    )
    return PartitionResult(
        assignment=assignment,
        syncs=(sync,) if count else (),
        position=replace(
            assignment.position,
            source_offset=start + count,
            target_offset=target + count,
            next_sequence=assignment.position.next_sequence + count,
            leader_epoch=epoch,
        ),
        tail=assignment.tail,
        stop=None,
        trouble=None,
    )


def nothing(assignment: Assignment) -> PartitionResult:
    return copied(assignment, 0)


def stopped(cause: StopCause, count: int, divergence: Divergence | None = None) -> Step:
    """A task that copied so many records and could not go on."""

    def step(assignment: Assignment) -> PartitionResult:
        return replace(copied(assignment, count), stop=Stop(cause, "as told"), divergence=divergence)

    return step


def asked(driver: Driver, request: OperationContent, *, flow: str | None = "f") -> str:
    """An operator records something; returns the operation."""
    fact_log = MemoryFactLog(driver.flow.ledger, driver.flow.clock)
    log = OperatorOperations(fact_log, operator="anna", new_id=lambda: f"{request.kind} {request.content()}")
    return log.record(request, flow=flow, reason="a move")


def all_of_it(count: int) -> Step:
    """A task that copied so many records, and found no more on either side."""
    return lambda assignment: replace(copied(assignment, count), tail=BOTH_SEEN)


def write(driver: Driver, count: int, topic: str = "t") -> None:
    log = driver.flow.east.log(topic, 0)
    log.append(application_batch([content(b"k", b"v")] * count, [0] * count), now_ms=0)
