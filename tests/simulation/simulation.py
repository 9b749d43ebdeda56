"""One simulated life of some flows: workloads, a storm of faults, drivers that die and come back, then calm."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ledger.config.values import FlowConfig
from ledger.store.session import OperatorOperations
from tests.simulation.accounts import Place, Row
from tests.simulation.aftermath import Aftermath
from tests.simulation.consumers import Consumers
from tests.simulation.crash_points import CrashPlan, CrashPoint
from tests.simulation.directions import Direction
from tests.simulation.drivers import FlowDrivers, World
from tests.simulation.faults import Fault, Promise, draw_faults, draw_forgetful_faults, draw_more
from tests.simulation.kafka.fenced_cluster import FencedCluster
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.maintainers import Maintainers, Noters
from tests.simulation.moves import Moves, Way
from tests.simulation.operators import Operator, StoppedPartition
from tests.simulation.readings import Readings
from tests.simulation.recorders import Recorders
from tests.simulation.settlers import Settlers
from tests.simulation.storm import Storm, Targets
from tests.simulation.topologies import RECREATED_NOW_AND_THEN, Shape, draw_topology
from tests.simulation.weather import StormyWeather
from tests.simulation.workload import OTHER_MIRROR_PRODUCER_ID, TopicKind, Workload

_SENT_ALONE = 0.4
"""In so many lives producers send each record alone."""
_STORM_S = 5.0
_LAST_ROUNDS_S = 2.0
_CALM_S = 8.0
_PASSES = 8
HEARTBEATS = "contents repeat"
_CUTS = 2
_OTHER_FLOW = {
    "event": "claimed",
    "host": "elsewhere",
    "flow": "another-flow",
    "source_cluster": "south",
    "source_cluster_id": "cluster-of-south",
    "target_cluster": "east",
    "target_cluster_id": "cluster-of-east",
    "producer_id": OTHER_MIRROR_PRODUCER_ID,
    "former_producer_id": None,
    "allocated_producer_id": None,
    "source_metadata_offset": None,
    "target_metadata_offset": None,
    "config_hash": None,
    "brokers": None,
}


@dataclass(frozen=True, slots=True)
class Plot:
    """What kind of life it is to be; everything else is drawn from the seed.

    `crashes`: the points at which processes die the first few times that they get there.
    """

    promise: Promise = Promise.ONCE
    faults: frozenset[Fault] | None = None
    shape: Shape | None = None
    crashes: frozenset[CrashPoint] = frozenset()


_CLOCKS_APART_MS = 120_000


class _JumpyClock:
    """Wall time of drivers: jumps back and forth; monotonic time does not."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return self._schedule.now_ms() + self.ahead_ms

    def monotonic(self) -> float:
        return self._schedule.monotonic()


class _HostClock:
    """Wall time of one process's host: up to two minutes off, and it jumps with all others."""

    def __init__(self, clock: _JumpyClock, off_ms: int) -> None:
        self._clock = clock
        self._off_ms = off_ms

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._off_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()


class Simulation:
    """Everything is drawn from the seed; `story` says what, for whoever reads a failure."""

    def __init__(self, seed: int, plot: Plot = Plot()) -> None:
        self._rng = rng = random.Random(seed)
        self._plot = plot
        self.tally: Counter[str] = Counter()
        self.topology = draw_topology(rng, plot.shape or self._draw_shape()).with_policies(
            random.Random(f"{seed}:tails")
        )
        self._is_old = rng.random() < 0.4
        self._repeats = self._draw_repeats(seed)
        self._sends_alone = random.Random(f"{seed}:alone").random() < _SENT_ALONE
        self.faults = self._draw_faults(seed) | self._draw_recreation(random.Random(f"{seed}:recreation"))
        self.schedule = Schedule()
        self.clusters = {alias: FencedCluster(alias, self.schedule) for alias in self.topology.clusters}
        self.weather = StormyWeather(rng, self.tally, loses=Fault.LOST_CONNECTIONS in self.faults)
        self._clock = _JumpyClock(self.schedule)
        self._ledger = MemoryLedger()
        self.plan = self._draw_plan()
        clocks = random.Random(f"{seed}: clocks of hosts")

        def host_clock() -> _HostClock:
            return _HostClock(self._clock, clocks.randint(-_CLOCKS_APART_MS, _CLOCKS_APART_MS))

        MemoryFactLog(self._ledger, self.schedule).claim("flow:another-flow", [], _OTHER_FLOW)
        world = World(
            rng,
            self.schedule,
            self.clusters,
            self._ledger,
            self._clock,
            self.weather,
            self.plan,
            self.tally,
            host_clock,
        )
        self.flows = [FlowDrivers(world, flow) for flow in self.topology.flows]
        self._operators = [
            Operator(
                rng,
                f.flow.name,
                f.source,
                f.state,
                OperatorOperations(
                    MemoryFactLog(self._ledger, host_clock()), operator="memory", new_id=world.new_id
                ),
            )
            for f in self.flows
        ]
        self.workloads = self._draw_workloads(seed)
        self._directions = self._draw_directions(seed, world)
        if Fault.CLEANED_MEANWHILE in self.faults:
            self._clean_when_drivers_end(random.Random(f"{seed}:meanwhile"))
        self._settlers = Settlers(random.Random(f"{seed}:settlers"), self.schedule, self._ledger, self.tally)
        if Fault.SETTLED_MEANWHILE in self.faults:
            for drivers in self.flows:
                drivers.meanwhile = self._settlers.before(drivers)
        self._readings = Readings()
        self.consumers = self._draw_consumers(seed)
        self._own_rng = random.Random(f"{seed}:moves")
        self._recorders = Recorders(
            random.Random(f"{seed}:recorders"), self.schedule, self.clusters.values(), self._ledger
        )
        self._maintainers = Maintainers(
            random.Random(f"{seed}:maintainers"), self.schedule, self._ledger, self.tally
        )
        self._noters = Noters(
            random.Random(f"{seed}:noters"), self.schedule, self._ledger, world.noted, self.tally
        )
        self.storm = Storm(rng, self.schedule, self._where(), self._own_faults(), self.tally)
        self.tally.update(self._drawn())

    @property
    def story(self) -> str:
        flows = "; ".join(
            f"{f.name} {f.target_mode}, {f.tasks} tasks, rounds of {f.round_seconds} s"
            for f in self.topology.flows
        )
        kinds = sorted({topic for workload in self.workloads.values() for topic in workload.kinds})
        return (
            f"{self.topology.shape}: {flows}; topics {', '.join(kinds)}{', old' if self._is_old else ''}"
            f"{', heartbeats' if self._repeats else ''}{', records sent alone' if self._sends_alone else ''}; "
            f"faults: {', '.join(sorted(self.faults)) or 'none'}; {self._plot.promise}"
        )

    # -- drawing ---------------------------------------------------------------------------------

    def _draw_repeats(self, seed: int) -> random.Random | None:
        """In some lives applications repeat themselves; what these add to a life is drawn apart from all else."""
        rng = random.Random(f"{seed}:repeats")
        return rng if rng.random() < 0.25 else None

    def _draw_shape(self) -> Shape:
        return self._rng.choices(list(Shape), weights=(8, 1, 1, 1, 0.5, 0.5))[0]

    def _draw_faults(self, seed: int) -> frozenset[Fault]:
        if self._plot.faults is not None:
            return self._plot.faults
        allowed = self.topology.allowed
        more = draw_more(random.Random(f"{seed}:faults"), allowed)
        if self._plot.promise is Promise.TOLD:
            return draw_forgetful_faults(self._rng, allowed) | more
        return draw_faults(self._rng, allowed, old_timestamps=self._is_old) | more

    def _draw_recreation(self, rng: random.Random) -> frozenset[Fault]:
        is_drawn = self._plot.faults is None and self.topology.shape in RECREATED_NOW_AND_THEN
        is_once = self._plot.promise is Promise.ONCE
        return frozenset({Fault.TARGET_RECREATED} if is_drawn and is_once and rng.random() < 0.4 else ())

    def _draw_plan(self) -> CrashPlan:
        if self._plot.crashes:
            return CrashPlan(self._rng, self._plot.crashes, chance=0.0, certain=2)
        points = [point for point in CrashPoint if self._rng.random() < 0.4]
        is_at_work = Fault.CRASH_POINTS in self.faults
        return CrashPlan(
            self._rng,
            frozenset(points) if is_at_work else frozenset(),
            chance=self._rng.choice((0.01, 0.05, 0.2)),
        )

    def _draw_workloads(self, seed: int) -> dict[str, Workload]:
        """Compaction is at work on compacted topics only where one flow reads and writes each log."""
        rng = self._rng
        is_single = self.topology.shape is Shape.SINGLE
        workloads = {
            alias: Workload(
                rng,
                self.schedule,
                self.clusters[alias],
                old_timestamps=self._is_old,
                repeats=self._repeats,
                cleanup=random.Random(f"{seed}:cleanup"),
                sends_alone=self._sends_alone,
            )
            for alias in self.topology.written_at
        }
        kinds = list(TopicKind) if is_single else [TopicKind.PLAIN, TopicKind.TRANSACTIONAL]
        for number, kind in enumerate(rng.choices(kinds, k=rng.randint(1, 3 if is_single else 2))):
            partitions = rng.randint(1, 3)
            for workload in workloads.values():
                workload.add_topic(f"{kind}-{number}", kind, partitions)
        return workloads

    def _draw_directions(self, seed: int, world: World) -> list[Direction]:
        rng = random.Random(f"{seed}:directions")
        log = OperatorOperations(
            MemoryFactLog(self._ledger, self.schedule), operator="memory", new_id=world.new_id
        )
        return [Direction(rng, f, self._target_names(f), log, self.tally) for f in self.flows]

    def _draw_consumers(self, seed: int) -> dict[str, Consumers]:
        """By cluster that something is mirrored from."""
        sources = dict.fromkeys(flow.source for flow in self.topology.flows)
        return {
            alias: Consumers(
                random.Random(f"{seed}:consumers:{alias}"),
                self.schedule,
                self.clusters[alias],
                self._readings,
                self.tally,
            )
            for alias in sources
        }

    def _where(self) -> Targets:
        sources = [(self.clusters[alias], self._names(alias)) for alias in self.topology.written_at]
        targets = [(drivers.target, self._target_names(drivers)) for drivers in self.flows]
        return Targets(sources, targets)

    def _names(self, alias: str) -> Callable[[], list[str]]:
        return lambda: list(self.workloads[alias].kinds)

    def _target_names(self, drivers: FlowDrivers) -> Callable[[], list[str]]:
        names = {topic for workload in self.workloads.values() for topic in workload.kinds}
        return lambda: sorted(drivers.flow.naming.target_name(name) for name in names)

    def _own_faults(self) -> dict[Fault, Callable[[], None]]:
        return {
            Fault.TASKS_DIE: lambda: self._rng.choice(self.flows).kill_task(),
            Fault.DRIVERS_DIE: lambda: self._rng.choice(self.flows).kill_driver(),
            Fault.ZOMBIES: lambda: self._rng.choice(self.flows).lose_sight(),
            Fault.COMPACTION: lambda: self._rng.choice(list(self.workloads.values())).compact(),
            Fault.CLOCK_JUMPS: self._jump,
            Fault.DIRECTION_CHANGES: lambda: self._rng.choice(self._directions).change(),
            Fault.HANGING_TRANSACTIONS: lambda: self._rng.choice(
                list(self.workloads.values())
            ).leave_transactions_open(),
        }

    def _clean_when_drivers_end(self, rng: random.Random) -> None:
        """Whatever was left unrecorded, cleaners run at the source, at the target, or at both before anybody looks."""
        for drivers in self.flows:
            drivers.meanwhile = lambda drivers=drivers: self._clean(drivers, rng)  # type: ignore[misc]

    def _clean(self, drivers: FlowDrivers, rng: random.Random) -> None:
        kinds = {name: kind for workload in self.workloads.values() for name, kind in workload.kinds.items()}
        names = [name for name, kind in kinds.items() if kind is TopicKind.COMPACTED]
        sides = [(drivers.source, names), (drivers.target, map(drivers.flow.naming.target_name, names))]
        for cluster, topics in rng.choice((sides, sides[:1], sides[1:])):
            for topic in topics:
                logs = cluster.topic_by_name[topic].logs if topic in cluster.topic_by_name else ()
                for log in logs:
                    log.compact(rng.choice((log.end, rng.randint(0, log.end))), now_ms=self.schedule.now_ms())
                    self.tally[f"struck: {Fault.CLEANED_MEANWHILE}"] += 1

    def _jump(self) -> None:
        self._clock.ahead_ms = self._rng.choice((-86_400_000, -1_000, 0, 1_000, 86_400_000))

    def _drawn(self) -> Iterator[str]:
        """What kind of life it is, as names for the tally."""
        yield f"shape: {self.topology.shape}"
        yield f"promise: {self._plot.promise}"
        if self._repeats is not None:
            yield HEARTBEATS
        yield from {f"target: {flow.target_mode}" for flow in self.topology.flows}
        kinds = {kind for workload in self.workloads.values() for kind in workload.kinds.values()}
        yield from {f"topic: {kind}" for kind in kinds}

    # -- a life ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Storm, calm, runs until everything has caught up; then everything is checked."""
        for workload in self.workloads.values():
            workload.start()
        self.storm.start(self.faults)
        self._meddle_later()
        self._recorders.start()
        self._maintainers.start()
        self._noters.start()
        for consumers in self.consumers.values():
            consumers.start()
        for _ in range(_CUTS):
            self.schedule.after(self._own_rng.uniform(0.5, _STORM_S), self._judge_moves_now)
        supervisors = [self.schedule.spawn(f"supervisor {f.flow.name}", f.supervise) for f in self.flows]
        self.schedule.wait(_STORM_S, lambda: any(actor.done for actor in supervisors))
        self._calm_down()
        self.schedule.wait(_LAST_ROUNDS_S, lambda: any(actor.done for actor in supervisors))
        for drivers in self.flows:
            drivers.end()
        for supervisor in supervisors:
            self.schedule.join(supervisor, seconds=_CALM_S)
        self.schedule.wait(_CALM_S, lambda: all(f.are_all_done for f in self.flows))
        self.schedule.wait(1.0)
        for drivers in self.flows:
            drivers.bury_the_dead()
            assert drivers.are_all_done, "a driver did not stop"
        self._settle()
        self._look_back()
        self._judge_moves_afterwards()

    def _meddle_later(self) -> None:
        def meddle() -> None:
            if not self.storm.is_over:
                self._rng.choice(self._operators).meddle()
                self._meddle_later()

        self.schedule.after(self._rng.uniform(0.5, 3.0), meddle)

    def _calm_down(self) -> None:
        self.plan.is_over = not self._plot.crashes
        self.storm.end()
        self.weather.is_over = True
        self._clock.ahead_ms = 0
        for direction in self._directions if Fault.DIRECTION_CHANGES in self.faults else ():
            direction.demote()
        for workload in self.workloads.values():
            workload.stop()
        self._recorders.is_over = True
        self._maintainers.is_over = True
        self._noters.is_over = True

    def _settle(self) -> None:
        """Let all flows catch up and operators resolve what is stopped, until nothing changes any more."""
        before: object = None
        for _ in range(_PASSES):
            for drivers in self.flows:
                drivers.catch_up()
            is_stopped = any([operator.resolve() for operator in self._operators])
            after = self._ends()
            if after == before and not is_stopped:
                return
            before = after
            if is_stopped:
                for drivers in self.flows:
                    drivers.run_a_while(_LAST_ROUNDS_S)
        raise AssertionError(("it does not settle", self._stopped(), self._ends()))

    def _ends(self) -> dict[tuple[str, str, int], int]:
        return {
            (alias, name, number): log.end
            for alias, cluster in self.clusters.items()
            for name, topic in cluster.topic_by_name.items()
            for number, log in enumerate(topic.logs)
        }

    def _stopped(self) -> list[dict[Place, StoppedPartition]]:
        return [operator.stopped() for operator in self._operators]

    # -- afterwards ------------------------------------------------------------------------------

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table of the ledger, in the order of recording."""
        return self._ledger.rows(table)

    def _look_back(self) -> None:
        aftermath = Aftermath(
            self._plot.promise,
            self.topology.felt(self.faults),
            self.clusters,
            self.flows,
            self._operators,
            self._ledger,
        )
        aftermath.check()
        self.tally.update(aftermath.tally())
        for point, times in self.plan.crashed.items():
            self.tally[f"crashed: {point}"] += times
            self.tally[f"struck: {Fault.CRASH_POINTS}"] += times

    # -- groups that move ------------------------------------------------------------------------

    def _judge_moves_now(self) -> None:
        """In the middle of the storm; what a target has lost and nobody looked at yet, no ledger can know.

        Nor to which history a commit belongs whose source has had its epoch and offset twice.
        """
        if not {Fault.TARGET_UNCLEAN, Fault.SOURCE_RESTORED} & self.faults and self._recorders.record_all():
            self._moves().check()

    def _judge_moves_afterwards(self) -> None:
        for consumers in self.consumers.values():
            consumers.stop()
        assert self._recorders.record_all()
        if Fault.SOURCE_RESTORED not in self.faults:
            self._moves().check()

    def check_queried_moves(self) -> None:
        """The answers of the SQL query are those that were judged: for lives that are over, because it takes long."""
        self._moves().check_queried()

    def _moves(self) -> Moves:
        ways = [self._way(drivers) for drivers in self.flows]
        agree = Fault.CLOCK_JUMPS not in self.faults
        return Moves(self.clusters, ways, self._ledger, self.consumers, self._readings, self.tally, agree)

    def _way(self, drivers: FlowDrivers) -> Way:
        flow = drivers.flow
        back = [
            other.flow
            for other in self.flows
            if (other.flow.source, other.flow.target) == (flow.target, flow.source)
        ]
        writers = self.rows("writers")
        return Way(
            flow,
            has_way_back=bool(back),
            left_out=_left_out(writers, flow),
            not_carried_back=frozenset[int]().union(*(_left_out(writers, one) for one in back)),
        )


def _left_out(writers: Iterable[Row], flow: FlowConfig) -> frozenset[int]:
    """Producer ids of flows that write to the source of a flow, whose records it does not copy."""
    if flow.relay:
        return frozenset()
    return frozenset(int(row["producer_id"]) for row in writers if row["target_cluster"] == flow.source)
