"""Drivers and tasks that run in simulated time and can be killed, or lost sight of, at any moment."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ledger.adapters.memory.fact_log import MemoryFactLog
from ledger.adapters.memory.kafka import MemoryCluster
from ledger.adapters.memory.network import MemoryNetwork, Weather
from ledger.adapters.memory.schedule import Actor, Schedule
from ledger.mirror.assignments import Assignment, CopyLimits, PartitionResult
from ledger.mirror.copy_task import CopyTask
from ledger.ports import Completion, Row, WriterClaim, WriterDirectory

FOREVER_S = 1e6
LIMITS = CopyLimits(
    partition_fetch_bytes=3_000,
    fetch_bytes=6_000,
    buffered_bytes=20_000,
    produce_request_bytes=4_000,
    in_flight_bytes=10_000,
    max_wait_ms=100,
    busy_wait_ms=10,
    request_timeout_ms=2_000,
    drain_ms=150,
)


class Killed(BaseException):
    """The process is gone; nothing of ours catches this."""


@dataclass(slots=True)
class Process:
    """A driver or a task attempt. `is_lost`: whoever waits for it believes that it is dead."""

    name: str
    is_killed: bool = False
    is_lost: bool = False
    on_kill: list[Callable[[], None]] = field(default_factory=list)

    def kill(self) -> None:
        self.is_killed = True
        for action in self.on_kill:
            action()

    def check(self) -> None:
        if self.is_killed:
            raise Killed(self.name)


class TaskNetwork(MemoryNetwork):
    """A network that dies with its process."""

    process: Process

    def poll(self, timeout_s: float) -> list[Completion]:
        self.process.check()
        self.schedule.wait(timeout_s, lambda: bool(self._inbox) or self.process.is_killed)
        self.process.check()
        return super().poll(0)


class StormyStop:
    """Implements `round_loop.StopSignal` for one driver."""

    def __init__(self, schedule: Schedule, process: Process) -> None:
        self._schedule = schedule
        self._process = process
        self.is_asked = False

    def is_set(self) -> bool:
        self._process.check()
        return self.is_asked

    def wait(self, timeout: float | None = None) -> bool:
        self._schedule.wait(timeout or FOREVER_S, lambda: self.is_asked or self._process.is_killed)
        return self.is_set()


class Cluster:
    """Where tasks run: the worker processes of one driver, which may outlive it."""

    def __init__(
        self,
        rng: random.Random,
        schedule: Schedule,
        clusters: tuple[MemoryCluster, MemoryCluster],
        weather: Weather,
        writers: WriterDirectory,
        driver: Process,
    ) -> None:
        self._rng = rng
        self._schedule = schedule
        self._clusters = clusters
        self._weather = weather
        self._writers = writers
        self._driver = driver
        self._kept: dict[int, TaskNetwork] = {}
        self.attempts: list[Process] = []

    def run(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> list[PartitionResult]:
        """Implements `round_loop.RoundRunner`."""
        self._driver.check()
        shares = [_Share(index, share) for index, share in enumerate(tasks)]
        running = [self._schedule.spawn(f"share {s.index}", self._runs(s, seconds)) for s in shares]
        self._schedule.wait(FOREVER_S, lambda: self._driver.is_killed or all(a.done for a in running))
        self._driver.check()
        for actor in running:
            if actor.error is not None:
                raise actor.error
        return [result for share in shares for result in share.results]

    def _runs(self, share: "_Share", seconds: float) -> Callable[[], None]:
        return lambda: self._run_share(share, seconds)

    def _run_share(self, share: "_Share", seconds: float) -> None:
        """One attempt after another until one is done, as Spark does it."""
        while not self._driver.is_killed:
            process = Process(f"task {share.index}")
            self.attempts.append(process)
            results: list[PartitionResult] = []
            actor = self._schedule.spawn(process.name, self._copies(share, process, results, seconds))
            self._await(actor, process)
            self.attempts = [attempt for attempt in self.attempts if attempt is not process]
            if actor.done and actor.error is None and not process.is_lost:
                share.results = results
                return
            if actor.error is not None and not isinstance(actor.error, Killed):
                raise actor.error

    def _await(self, actor: Actor, process: Process) -> None:
        self._schedule.wait(FOREVER_S, lambda: actor.done or process.is_lost)

    def _copies(
        self, share: "_Share", process: Process, results: list[PartitionResult], seconds: float
    ) -> Callable[[], None]:
        def copy() -> None:
            network = self._network(share.index, process)
            task = CopyTask(share.assignments, network, self._writers, self._schedule, LIMITS)
            results.extend(task.run(seconds=seconds))
            if not process.is_lost:
                self._kept[share.index] = network

        return copy

    def _network(self, index: int, process: Process) -> TaskNetwork:
        kept = self._kept.pop(index, None)
        if kept is not None and not kept.is_idle:
            kept.abandon()
            kept = None
        network = kept or TaskNetwork(*self._clusters, self._schedule, self._weather)
        network.process = process
        process.on_kill.append(network.abandon)
        return network


@dataclass(slots=True)
class _Share:
    index: int
    assignments: Sequence[Assignment]
    results: list[PartitionResult] = field(default_factory=list)


class DriverFactLog:
    """The fact log as one driver sees it: an append under way when the driver dies is made or not."""

    def __init__(self, rng: random.Random, schedule: Schedule, log: MemoryFactLog, process: Process) -> None:
        self._rng = rng
        self._schedule = schedule
        self._log = log
        self._process = process

    def claim(self, writer: str, tables: Sequence[str], row: Row) -> WriterClaim:
        self._pass_time(0.1)
        claim = self._log.claim(writer, tables, row)
        self._pass_time(0.1)
        return claim

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        self._pass_time(0.4)
        self._log.append(claim, table, round_number, rows)
        self._pass_time(0.2)

    def _pass_time(self, at_most_s: float) -> None:
        self._schedule.wait(self._rng.uniform(0, at_most_s), lambda: self._process.is_killed)
        self._process.check()


class _Pending:
    """A future of simulated time."""

    def __init__(self, schedule: Schedule, actor: Actor) -> None:
        self._schedule = schedule
        self._actor = actor

    def result(self) -> None:
        self._schedule.join(self._actor, seconds=FOREVER_S)


class SimulatedExecutor:
    """Stands in for the appender's thread pool: its one thread is an actor."""

    schedule: Schedule

    def __init__(self, **_settings: object) -> None:
        self._actors: list[Actor] = []

    def submit(self, action: Callable[..., None], *arguments: object) -> _Pending:
        actor = self.schedule.spawn("append", lambda: action(*arguments))
        self._actors.append(actor)
        return _Pending(self.schedule, actor)

    def shutdown(self, *, wait: bool) -> None:
        self.schedule.wait(FOREVER_S if wait else 0, lambda: all(actor.done for actor in self._actors))
