"""One simulated life of some flows: workloads, a storm of faults, drivers that die and come back, then calm."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ledger.adapters.memory.fact_log import MemoryFactLog, MemoryOperationLog
from ledger.adapters.memory.kafka import MemoryCluster
from ledger.adapters.memory.schedule import Schedule
from ledger.adapters.memory.tables import MemoryLedger
from ledger.config import TargetMode
from ledger.domain.requests import RequestKind
from ledger.mirror.assignments import StopCause
from tests.simulation.accounts import Account, Place, accounts, walk
from tests.simulation.checks import Chronicles, Copied, check, check_l3_once
from tests.simulation.crash_points import CrashPlan, CrashPoint
from tests.simulation.drivers import FlowDrivers, World
from tests.simulation.faults import Fault, Promise, draw_faults, draw_forgetful_faults
from tests.simulation.operators import Operator
from tests.simulation.stops import ALLOWED, MORE_WHEN_TOLD
from tests.simulation.storm import Storm, StormyWeather, Targets
from tests.simulation.topologies import Shape, draw_topology
from tests.simulation.workload import OTHER_MIRROR_PRODUCER_ID, TopicKind, Workload

_STORM_S = 5.0
_LAST_ROUNDS_S = 2.0
_CALM_S = 8.0
_PASSES = 8
_OTHER_FLOW = {
    "event": "claimed",
    "host": "elsewhere",
    "flow": "another-flow",
    "source_cluster": "south",
    "source_cluster_id": "cluster-of-south",
    "target_cluster": "east",
    "target_cluster_id": "cluster-of-east",
    "producer_id": OTHER_MIRROR_PRODUCER_ID,
    "config_hash": None,
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


class _JumpyClock:
    """Wall time of drivers: jumps back and forth; monotonic time does not."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return self._schedule.now_ms() + self.ahead_ms

    def monotonic(self) -> float:
        return self._schedule.monotonic()


class Simulation:
    """Everything is drawn from the seed; `story` says what, for whoever reads a failure."""

    def __init__(self, seed: int, plot: Plot = Plot()) -> None:
        self._rng = rng = random.Random(seed)
        self._plot = plot
        self.topology = draw_topology(rng, plot.shape or self._draw_shape())
        self._is_old = rng.random() < 0.4
        self.faults = self._draw_faults()
        self.schedule = Schedule()
        self.clusters = {alias: MemoryCluster(alias, self.schedule) for alias in self.topology.clusters}
        self.weather = StormyWeather(rng, loses=Fault.LOST_CONNECTIONS in self.faults)
        self.tally: Counter[str] = Counter()
        self._clock = _JumpyClock(self.schedule)
        self._ledger = MemoryLedger()
        self.plan = self._draw_plan()
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
        )
        self.flows = [FlowDrivers(world, flow) for flow in self.topology.flows]
        operations = MemoryOperationLog(self._ledger, self._clock)
        self._operators = [Operator(rng, f.flow.name, f.source, f.state, operations) for f in self.flows]
        self.workloads = self._draw_workloads()
        self.storm = Storm(rng, self.schedule, self._where(), self._own_faults())

    @property
    def story(self) -> str:
        flows = "; ".join(
            f"{f.name} {f.target_mode}, {f.tasks} tasks, rounds of {f.round_seconds} s"
            for f in self.topology.flows
        )
        kinds = sorted({topic for workload in self.workloads.values() for topic in workload.kinds})
        return (
            f"{self.topology.shape}: {flows}; topics {', '.join(kinds)}{', old' if self._is_old else ''}; "
            f"faults: {', '.join(sorted(self.faults)) or 'none'}; {self._plot.promise}"
        )

    # -- drawing ---------------------------------------------------------------------------------

    def _draw_shape(self) -> Shape:
        return self._rng.choices(list(Shape), weights=(8, 1, 1, 1, 1))[0]

    def _draw_faults(self) -> frozenset[Fault]:
        if self._plot.faults is not None:
            return self._plot.faults
        if self._plot.promise is Promise.TOLD:
            return draw_forgetful_faults(self._rng, self.topology.allowed)
        return draw_faults(self._rng, self.topology.allowed, old_timestamps=self._is_old)

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

    def _draw_workloads(self) -> dict[str, Workload]:
        """Compaction is at work on compacted topics only where one flow reads and writes each log."""
        rng = self._rng
        is_single = self.topology.shape is Shape.SINGLE
        workloads = {
            alias: Workload(rng, self.schedule, self.clusters[alias], old_timestamps=self._is_old)
            for alias in self.topology.written_at
        }
        kinds = list(TopicKind) if is_single else [TopicKind.PLAIN, TopicKind.TRANSACTIONAL]
        for number, kind in enumerate(rng.choices(kinds, k=rng.randint(1, 3 if is_single else 2))):
            partitions = rng.randint(1, 3)
            for workload in workloads.values():
                workload.add_topic(f"{kind}-{number}", kind, partitions)
        return workloads

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
            Fault.HANGING_TRANSACTIONS: lambda: self._rng.choice(
                list(self.workloads.values())
            ).leave_transactions_open(),
        }

    def _jump(self) -> None:
        self._clock.ahead_ms = self._rng.choice((-86_400_000, -1_000, 0, 1_000, 86_400_000))

    # -- a life ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Storm, calm, runs until everything has caught up; then everything is checked."""
        for workload in self.workloads.values():
            workload.start()
        self.storm.start(self.faults)
        self._meddle_later()
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
        self._check()

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
        for workload in self.workloads.values():
            workload.stop()

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

    def _stopped(self) -> list[Any]:
        return [operator.stopped() for operator in self._operators]

    # -- checking --------------------------------------------------------------------------------

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self._ledger.rows(table)

    def _check(self) -> None:
        self._check_stops()
        found = accounts(self.rows("offset_syncs"))
        chronicles = {alias: Chronicles(cluster) for alias, cluster in self.clusters.items()}
        self._check_l3(found)
        for (flow, place), account in found.items():
            drivers = next(f for f in self.flows if f.flow.name == flow)
            copied = self._copied(drivers, place, account, found, chronicles)
            try:
                check(copied)
            except AssertionError as error:
                error.add_note("\n".join([f"{flow} {account.source_topic} {place}", *walk(account)]))
                raise
            self._tally_account(account)
        self._check_all_are_mirrored(found)
        for point, times in self.plan.crashed.items():
            self.tally[f"crashed: {point}"] += times

    def _check_stops(self) -> None:
        for row in self.rows("operations"):
            if row["kind"] == "partition_stopped":
                cause = StopCause(row["reason"])
                self.tally[f"stopped by {cause}"] += 1
                is_told = self._plot.promise is Promise.TOLD and cause in MORE_WHEN_TOLD
                assert ALLOWED[cause] & self.faults or is_told, row
            elif row["kind"] == "receipt":
                self.tally["requests answered"] += 1

    def _check_l3(self, found: dict[tuple[str, Place], Account]) -> None:
        for cluster in self.clusters:
            flows = {f.flow.name for f in self.flows if f.flow.target == cluster}
            check_l3_once(account for (flow, _), account in found.items() if flow in flows)

    def _check_all_are_mirrored(self, found: dict[tuple[str, Place], Account]) -> None:
        """Every partition of every living topic that a flow copies has an account."""
        for drivers in self.flows:
            for name, topic in drivers.source.topic_by_name.items():
                for number in range(len(topic.logs)):
                    assert (drivers.flow.name, (topic.topic_id, number)) in found, (drivers.flow.name, name)

    def _copied(
        self,
        drivers: FlowDrivers,
        place: Place,
        account: Account,
        found: dict[tuple[str, Place], Account],
        chronicles: dict[str, Chronicles],
    ) -> Copied:
        flow = drivers.flow
        told = {
            at.offset
            for (name, other), its in found.items()
            if name == flow.name and other[1] == place[1]
            for at in its.told
            if at.topic_id == account.target_topic_id
        }
        return Copied(
            account=account,
            kind=TopicKind(account.source_topic.rpartition("-")[0]),
            source=chronicles[flow.source].at(place),
            targets=chronicles[flow.target],
            producer_id=self._producer_id(flow.name),
            mirror_ids=self._mirror_ids(flow.source),
            is_relayed=flow.relay,
            is_exclusive=flow.target_mode is TargetMode.EXCLUSIVE,
            is_source_living=place[0] in chronicles[flow.source].living,
            is_reopened=Fault.SOURCE_UNCLEAN in self.faults,
            is_accepted=self._is_accepted(flow.name, account.source_topic, place[1]),
            promise=self._plot.promise,
            stop=self._stop(flow.name, place),
            stops_told=self._stops_told(flow.name, account.source_topic, place[1]),
            told=frozenset(told),
        )

    def _producer_id(self, flow: str) -> int:
        return next(int(row["producer_id"]) for row in self.rows("writers") if row["flow"] == flow)

    def _mirror_ids(self, alias: str) -> frozenset[int]:
        return frozenset(row["producer_id"] for row in self.rows("writers") if row["target_cluster"] == alias)

    def _stop(self, flow: str, place: Place) -> StopCause | None:
        operator = self._operators[[f.flow.name for f in self.flows].index(flow)]
        stopped = operator.stopped().get(place)
        return None if stopped is None else stopped.cause

    def _stops_told(self, flow: str, topic: str, partition: int) -> frozenset[StopCause]:
        """Whatever topic id it had: what was found under an earlier one is told."""
        state = self.flows[0].state
        return frozenset(
            StopCause(content["cause"])
            for content in state.events(flow, "partition_stopped")
            if (content["topic"], content["partition"]) == (topic, partition)
        )

    def _is_accepted(self, flow: str, topic: str, partition: int) -> bool:
        asked = self.flows[0].state.events(flow, RequestKind.ACCEPT_FOREIGN)
        return any((content["topic"], content["partition"]) == (topic, partition) for content in asked)

    def _tally_account(self, account: Account) -> None:
        for row in account.rows:
            self.tally["records"] += row["records"]
            self.tally["recovered"] += row["records"] if row["recovered"] else 0
            self.tally["raw batches"] += row["raw_batches"]
            self.tally["record path batches"] += row["record_path_batches"]
            self.tally[f"{row['kind']} {row['cause'] or ''}".strip()] += 1
            for gap in row["gaps"]:
                self.tally[f"gaps {gap['cause']}"] += 1
