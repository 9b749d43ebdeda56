"""Drivers and tasks that run in simulated time and can be killed, or lost sight of, at any moment.

Everything between a process and the rest of the world passes through here or through `driver_ports`:
`Process.reach` names the moment after an effect, and the crash plan says whether the process lives on.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ledger.facts.state import MirrorProducers
from ledger.kafka.copying import Completion
from ledger.mirror.assignment import Assignment, CopyLimits
from ledger.mirror.continuing import JobRounds, Last, Results, Turn, copy_in_rounds
from ledger.mirror.slow_partitions import SlowPartitions
from ledger.mirror.task import CopyTask
from tests.simulation.crash_points import CrashPlan, CrashPoint
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.network import MemoryNetwork, Weather
from tests.simulation.kafka.schedule import Actor, Schedule

FOREVER_S = 1e6
LIMITS = CopyLimits(
    partition_fetch_bytes=3_000,
    fetch_bytes=6_000,
    buffered_bytes=20_000,
    produce_request_bytes=4_000,
    in_flight_bytes=10_000,
    max_wait_ms=200,
    busy_wait_ms=20,
    request_timeout_ms=2_000,
    drain_ms=150,
    merged_bytes=1_500,
    slow_ms=30,
)


class Killed(BaseException):
    """The process is gone; nothing of ours catches this."""


@dataclass(slots=True)
class Process:
    """A driver or a task attempt. `is_lost`: whoever waits for it believes that it is dead."""

    name: str
    plan: CrashPlan
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

    def reach(self, point: CrashPoint) -> None:
        """Die here if that is the plan; for code that runs as this process."""
        self.struck_at(point)
        self.check()

    def struck_at(self, point: CrashPoint) -> None:
        """The same for code that runs elsewhere while this process waits."""
        if not self.is_killed and self.plan.strikes(point):
            self.kill()


class TaskNetwork(MemoryNetwork):
    """A network that dies with its process."""

    process: Process
    _has_acknowledged = False

    def poll(self, timeout_s: float) -> list[Completion]:
        self.process.check()
        if self._has_acknowledged:
            self.process.reach(CrashPoint.ACKNOWLEDGED)
        self.schedule.wait(timeout_s, lambda: bool(self._inbox) or self.process.is_killed)
        self.process.check()
        completions = super().poll(0)
        self._has_acknowledged = any(map(_is_acknowledgement, completions))
        if any(part and part.records for done in completions for part in done.fetched):
            self.process.reach(CrashPoint.FETCHED)
        return completions

    def executed(self, answer: Completion) -> None:
        if _is_acknowledgement(answer):
            self.process.struck_at(CrashPoint.BATCH_PRODUCED)


def _is_acknowledgement(completion: Completion) -> bool:
    return any(part is not None and part.error == 0 for part in completion.produced)


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


class Workers:
    """Where tasks run: the worker processes of one driver, which may outlive it."""

    def __init__(
        self,
        rng: random.Random,
        schedule: Schedule,
        clusters: tuple[MemoryCluster, MemoryCluster],
        weather: Weather,
        writers: MirrorProducers,
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

    def run(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> Results:
        """Implements `RoundRunner`: nothing that is simulated runs a single round."""
        raise AssertionError(f"no single round of {seconds} s is asked for: {tasks}")

    def begin(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> "SimulatedJob":
        """Implements `RoundRunner`."""
        self._driver.check()
        job = SimulatedJob(JobRounds(tasks), self._schedule, self._driver, seconds)
        job.running = [
            self._schedule.spawn(f"share {index}", self._runs(job, index)) for index in range(len(tasks))
        ]
        return job

    def _runs(self, job: "SimulatedJob", index: int) -> Callable[[], None]:
        return lambda: self._run_share(job, index)

    def _run_share(self, job: "SimulatedJob", index: int) -> None:
        """One attempt after another until one is done, as Spark does it."""
        while not self._driver.is_killed:
            process = Process(f"task {index}", self._driver.plan)
            self.attempts.append(process)
            found: list[Last] = []
            actor = self._schedule.spawn(process.name, self._copies(job, index, process, found))
            self._await(actor, process)
            self.attempts = [attempt for attempt in self.attempts if attempt is not process]
            if actor.done and actor.error is None and not process.is_lost:
                job.last += found
                job.rounds.is_to_end = True
                return
            if actor.error is not None and not isinstance(actor.error, Killed):
                raise actor.error

    def _await(self, actor: Actor, process: Process) -> None:
        self._schedule.wait(FOREVER_S, lambda: actor.done or process.is_lost)

    def _copies(
        self, job: "SimulatedJob", index: int, process: Process, found: list[Last]
    ) -> Callable[[], None]:
        def copy() -> None:
            contact = SimulatedContact(job, job.rounds.begin(index), process, self._rng)
            network, slow = self._network(index, process), SlowPartitions()

            def copy_round(assignments: Sequence[Assignment]) -> Results:
                task = CopyTask(assignments, network, self._writers, self._schedule, LIMITS, slow)
                return task.run(seconds=job.seconds, is_to_end=contact.is_to_end)

            last = copy_in_rounds(contact.turn.assignments, contact, copy_round)
            process.reach(CrashPoint.TASK_DONE)
            found.append((index, contact.handed_over, last))
            if not process.is_lost:
                self._kept[index] = network

        return copy

    def _network(self, index: int, process: Process) -> TaskNetwork:
        kept = self._kept.pop(index, None)
        if kept is not None and not kept.is_idle:
            kept.abandon()
            kept = None
        network = kept or TaskNetwork(
            *self._clusters,
            self._schedule,
            self._weather,
            request_timeout_s=LIMITS.request_timeout_ms / 1000,
        )
        network.process = process
        process.on_kill.append(network.abandon)
        return network


class SimulatedContact:
    """Implements `Contact`; what the driver says is not always heard before a round is handed over.

    An attempt that was lost sight of hears nothing, until it is refused.
    """

    def __init__(self, job: "SimulatedJob", turn: Turn, process: Process, rng: random.Random) -> None:
        self.turn = turn
        self.handed_over = turn.handed_over
        self._job = job
        self._process = process
        self._rng = rng

    def is_to_end(self) -> bool:
        is_said = self._job.rounds.is_to_end or self._job.driver.is_killed
        return is_said and not self._process.is_lost and self._rng.random() < 0.5

    def hand_over(self, results: Results) -> bool:
        self._process.check()
        if self._job.rounds.recorded < self.handed_over or self._job.driver.is_killed:
            return False
        if not self._job.rounds.take(self.turn, results):
            return False
        self.handed_over += 1
        self._process.reach(CrashPoint.ROUND_HANDED_OVER)
        return True


@dataclass(slots=True)
class SimulatedJob:
    """Implements `CopyJob`."""

    rounds: JobRounds
    schedule: Schedule
    driver: Process
    seconds: float
    is_over: bool = False
    running: list[Actor] = field(default_factory=list)
    last: list[Last] = field(default_factory=list)

    @property
    def shares(self) -> list[list[Assignment]]:
        return self.rounds.shares

    def next_round(self) -> Results:
        self._wait(lambda: self.rounds.is_complete or self._are_done())
        self.driver.check()
        for actor in self.running:
            if actor.error is not None:
                self.is_over = True
                raise actor.error
        self.driver.reach(CrashPoint.TASKS_RETURNED)
        if self.rounds.is_complete or self.rounds.are_waiting:
            return self.rounds.next()
        self.is_over = True
        return self.rounds.last(self.last)

    def recorded(self) -> None:
        self.rounds.recorded = self.rounds.taken

    def end(self) -> None:
        self.rounds.is_to_end = True

    def abandon(self) -> None:
        self.end()
        self._wait(self._are_done)

    def _are_done(self) -> bool:
        return all(actor.done for actor in self.running)

    def _wait(self, ready: Callable[[], bool]) -> None:
        self.schedule.wait(FOREVER_S, lambda: self.driver.is_killed or ready())


class _Pending:
    """A future of simulated time."""

    def __init__(self, schedule: Schedule, actor: Actor) -> None:
        self._schedule = schedule
        self._actor = actor

    def result(self) -> None:
        self._schedule.join(self._actor, seconds=FOREVER_S)


class SimulatedExecutor:
    """Implements `writer_session.AppendExecutor`: its one thread is an actor and part of a driver."""

    def __init__(self, schedule: Schedule, process: Process) -> None:
        self._schedule = schedule
        self._process = process
        self._actors: list[Actor] = []

    def submit(self, append: Callable[[], None], /) -> _Pending:
        actor = self._schedule.spawn("append", append)
        self._actors.append(actor)
        self._process.reach(CrashPoint.FACTS_HANDED_OVER)
        return _Pending(self._schedule, actor)

    def shutdown(self, *, wait: bool) -> None:
        self._schedule.wait(FOREVER_S if wait else 0, lambda: all(actor.done for actor in self._actors))
