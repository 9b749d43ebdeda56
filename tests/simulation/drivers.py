"""The drivers of one flow: one after another, now and then two at once, because the first was believed dead."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ledger.clock import Clock
from ledger.config.values import FlowConfig
from ledger.errors import (
    ClusterUnavailableError,
    LedgerUnavailableError,
    PreconditionError,
    UnsafeError,
)
from ledger.facts.acls import AclFollow
from ledger.facts.cut_offsets import Cut
from ledger.mirror import driver as flow_driver
from ledger.mirror.progress import RunProgress
from ledger.mirror.rounds import FlowRun
from ledger.mirror.targets import FollowingRecord
from ledger.mirror.topics import FlowTopics
from ledger.store.producers import no_mirror_producers
from ledger.store.session import ClaimedOperations
from ledger.topics.following import TopicFollowing
from ledger.topics.naming import TopicSelection
from tests.simulation.crash_points import CrashPlan
from tests.simulation.driver_ports import DriverAdmin, DriverFactLog
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.network import Weather
from tests.simulation.kafka.schedule import Actor, Schedule
from tests.simulation.ledger.mirror_producers import memory_mirror_producers
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.processes import (
    FOREVER_S,
    Killed,
    Process,
    SimulatedExecutor,
    StormyStop,
    Workers,
)
from tests.simulation.starts import NotedLastRows, StartingState
from tests.support.ledgers import numbered

_SURVIVABLE = (Killed, PreconditionError, ClusterUnavailableError, LedgerUnavailableError, UnsafeError)
_RESTART_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class World:
    """What all drivers of a simulation share."""

    rng: random.Random
    schedule: Schedule
    clusters: Mapping[str, MemoryCluster]
    ledger: MemoryLedger
    clock: Clock
    weather: Weather
    plan: CrashPlan
    tally: Counter[str]
    host_clock: Callable[[], Clock]
    new_id: Callable[[], str] = field(default_factory=numbered)
    noted: NotedLastRows = field(default_factory=NotedLastRows)


@dataclass(slots=True)
class RunningDriver:
    process: Process
    workers: Workers
    stop: StormyStop
    actor: Actor


class FlowDrivers:
    """Starts a driver again whenever the last one has died, or is believed to have."""

    def __init__(self, world: World, flow: FlowConfig) -> None:
        self._world = world
        self.flow = flow
        self.source = world.clusters[flow.source]
        self.target = world.clusters[flow.target]
        self.state = StartingState(world.ledger, world.noted, world.tally)
        self.from_cut: Cut | None = None
        """Where drivers that start from now on begin."""
        self.host = "driver"
        """Their process, as writers say it."""
        self.meanwhile: Callable[[], None] = lambda: None
        """Happens between a driver's end and the next one's start."""
        self._living: list[RunningDriver] = []
        self._is_over = False

    # -- trouble ---------------------------------------------------------------------------------

    @property
    def attempts(self) -> list[Process]:
        return [attempt for driver in self._living for attempt in driver.workers.attempts]

    def kill_task(self) -> None:
        if attempts := self.attempts:
            self._world.rng.choice(attempts).kill()
            self._world.tally["tasks killed"] += 1

    def kill_driver(self) -> None:
        if not self._living:
            return
        driver = self._world.rng.choice(self._living)
        driver.process.kill()
        self._world.tally["drivers killed"] += 1
        if self._world.rng.random() < 0.5:
            for attempt in driver.workers.attempts:
                attempt.kill()

    def end_at_once(self) -> None:
        """All that live are killed with their tasks, and none is started in their place."""
        self._is_over = True
        for driver in self._living:
            driver.process.kill()
            for attempt in driver.workers.attempts:
                attempt.kill()

    def lose_sight(self) -> None:
        """Give up a task attempt or a driver that goes on living."""
        attempts = self.attempts
        if attempts and self._world.rng.random() < 0.6:
            self._world.rng.choice(attempts).is_lost = True
        elif self._living:
            self._world.rng.choice(self._living).process.is_lost = True
        self._world.tally["zombies"] += 1

    # -- life ------------------------------------------------------------------------------------

    def supervise(self) -> None:
        self._is_over = False
        while not self._is_over:
            driver = self.start(until_caught_up=False)
            self._world.schedule.wait(FOREVER_S, self._is_given_up(driver))
            self.bury_the_dead()
            self._world.schedule.wait(self._world.rng.uniform(0.01, 0.2))
            self.meanwhile()

    def end(self) -> None:
        """No driver is started any more, those that live end after their round."""
        self._is_over = True
        for driver in self._living:
            driver.stop.is_asked = True

    def catch_up(self) -> None:
        """Run until caught up, again when a driver was ended by what went before."""
        schedule = self._world.schedule
        give_up_at = schedule.monotonic() + _RESTART_LIMIT_S
        while (error := self._run_until_caught_up()) is not None:
            assert schedule.monotonic() < give_up_at, ("a flow does not catch up", self.flow.name, error)
            schedule.wait(0.5)

    def run_a_while(self, seconds: float) -> None:
        """A driver that looks at every partition, those included that have nothing new."""
        driver = self.start(until_caught_up=False)
        self._world.schedule.wait(seconds, lambda: driver.actor.done)
        driver.stop.is_asked = True
        self._world.schedule.wait(FOREVER_S, lambda: driver.actor.done)
        self.bury_the_dead()

    def _run_until_caught_up(self) -> BaseException | None:
        """What ended the driver before it had caught up: one whose topics are all gone says that there are none."""
        actor = self.start(until_caught_up=True).actor
        self._world.schedule.wait(FOREVER_S, lambda: actor.done)
        self.bury_the_dead()
        return None if isinstance(actor.error, UnsafeError) else actor.error

    @property
    def are_all_done(self) -> bool:
        return all(driver.actor.done for driver in self._living)

    def bury_the_dead(self) -> None:
        for driver in list(self._living):
            if driver.actor.done:
                self._living.remove(driver)
                error = driver.actor.error
                if error is not None and not isinstance(error, _SURVIVABLE):
                    raise error
                self._world.tally[f"drivers ended by {type(error).__name__}"] += 1

    def _is_given_up(self, driver: RunningDriver) -> Callable[[], bool]:
        return lambda: driver.actor.done or driver.process.is_lost or self._is_over

    def start(self, *, until_caught_up: bool) -> RunningDriver:
        world = self._world
        process = Process(self.host, world.plan)
        writers = (
            no_mirror_producers()
            if self.flow.relay
            else memory_mirror_producers(world.ledger, f"cluster-of-{self.source.alias}")
        )
        workers = Workers(
            world.rng, world.schedule, (self.source, self.target), world.weather, writers, process
        )
        stop = StormyStop(world.schedule, process)
        actor = world.schedule.spawn(
            "driver", lambda: self._drive(process, workers, stop, until_caught_up=until_caught_up)
        )
        driver = RunningDriver(process, workers, stop, actor)
        self._living.append(driver)
        return driver

    def _drive(self, process: Process, workers: Workers, stop: StormyStop, *, until_caught_up: bool) -> None:
        world = self._world
        source, target = DriverAdmin(self.source, process), DriverAdmin(self.target, process)
        clock = world.host_clock()
        fact_log = DriverFactLog(world.ledger, clock, world.rng, world.schedule, process)
        operations = ClaimedOperations(operator="driver", new_id=world.new_id)
        topics = FlowTopics(
            TopicSelection(self.flow.topics),
            TopicFollowing(self.flow.naming, 3),
            source,
            target,
            FollowingRecord(self.flow.name, operations, self.state),
            clock,
            delete_topics=False,
            acls=AclFollow.NONE,
        )
        run = FlowRun(
            flow=self.flow,
            topics=topics,
            source=source,
            target=target,
            fact_log=fact_log,
            state=self.state,
            operations=operations,
            runner=workers,
            clock=clock,
            executor=lambda: SimulatedExecutor(world.schedule, process),
            host=process.name,
            until_caught_up=until_caught_up,
            stop=stop,
            on_round=self._count,
            from_cut=self.from_cut,
        )
        flow_driver.run_flow(run)

    def _count(self, _progress: RunProgress) -> None:
        self._world.tally["rounds"] += 1
