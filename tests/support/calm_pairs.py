"""Two opposite flows between in-memory clusters in calm weather, one driver after another."""

import random
from collections import Counter
from typing import Any

from ledger.changeover.cut import CutFlow, CutPorts, take_cut
from ledger.changeover.settling import SettledFlow
from ledger.config.values import FlowConfig
from ledger.facts.cut_offsets import Cut
from ledger.facts.direction import Demoted, DirectionChange, Promoted
from ledger.facts.operations import DriverStarting
from ledger.mirror.starts import require_usable
from ledger.store import catalog
from ledger.store.sql import run_queries
from ledger.topics.naming import NamingKind, TopicSelection
from tests.simulation.crash_points import CrashPlan, CrashPoint
from tests.simulation.drivers import FlowDrivers, RunningDriver, World
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.settlers import settled
from tests.simulation.weather import StormyWeather
from tests.support.operation_logs import operators

TOPIC = "orders"
FORWARD, BACK = "east-to-west", "west-to-east"
_ENDS_WITHIN_S = 60.0


class CalmPair:
    """Topic `orders` at east and west, and a flow each way; drivers that may die do at `points`.

    `is_stormy`: around drivers that may die requests and answers are lost and come late, drawn from `seed`.
    """

    def __init__(
        self,
        points: frozenset[CrashPoint] = frozenset({CrashPoint.TASKS_RETURNED}),
        *,
        chance: float = 0.0,
        is_stormy: bool = False,
        seed: int = 1,
    ) -> None:
        rng = random.Random(seed)
        self.is_stormy, self.tally = is_stormy, Counter[str]()
        self.schedule, self.ledger = Schedule(), MemoryLedger()
        self.clusters = {alias: MemoryCluster(alias, self.schedule) for alias in ("east", "west")}
        self.weather = weather = StormyWeather(rng, self.tally, loses=is_stormy, losses=(0.25,))
        weather.is_over = True
        self.plan = CrashPlan(rng, points, chance=chance, certain=0 if chance else 1)
        self.plan.is_over = True
        world = World(
            rng,
            self.schedule,
            self.clusters,
            self.ledger,
            self.schedule,
            weather,
            self.plan,
            Counter[str](),
            lambda: self.schedule,
        )
        self.state = MemoryLedgerState(self.ledger)
        self.operations = operators(self.ledger, self.schedule)
        self.flows = {
            FORWARD: _flow(FORWARD, "east", "west", opposite=BACK),
            BACK: _flow(BACK, "west", "east", opposite=FORWARD),
        }
        self.drivers = {name: FlowDrivers(world, flow) for name, flow in self.flows.items()}
        for cluster in self.clusters.values():
            cluster.create_topic(TOPIC, partitions=1, replication_factor=1, configuration={})

    def log(self, alias: str) -> PartitionLog:
        return self.clusters[alias].log(TOPIC, 0)

    def write(self, alias: str, *values: str) -> None:
        """What an application writes, each value a batch of its own."""
        for value in values:
            self.schedule.jump(1.0)
            now_ms = self.schedule.now_ms()
            batch = application_batch([content(b"k", value.encode())], [now_ms])
            self.log(alias).append(batch, now_ms=now_ms)

    def mark(self, alias: str) -> None:
        """A control record, as a transaction or a fence leaves it."""
        self.log(alias).end_transaction(99, 0, commit=False, now_ms=self.schedule.now_ms())

    def start(
        self, flow: str, *, until_caught_up: bool = False, from_cut: Cut | None = None
    ) -> RunningDriver:
        self.operations.record(DriverStarting("h:1:1"), flow=flow, reason=None)
        drivers = self.drivers[flow]
        drivers.from_cut = from_cut
        return drivers.start(until_caught_up=until_caught_up)

    def run(self, flow: str, *, from_cut: Cut | None = None) -> BaseException | None:
        """One driver until it has caught up or can copy no more; returns what ended it, None: nothing."""
        driver = self.start(flow, until_caught_up=True, from_cut=from_cut)
        self.schedule.wait(_ENDS_WITHIN_S, lambda: driver.actor.done)
        self.drivers[flow].bury_the_dead()
        return driver.actor.error

    def run_to_death(self, flow: str, *, from_cut: Cut | None = None) -> None:
        """A driver that dies where it may."""
        self.plan.is_over, self.weather.is_over = False, not self.is_stormy
        self.run(flow, from_cut=from_cut)
        self.plan.is_over = self.weather.is_over = True

    def settle(self, flow: str) -> SettledFlow:
        """As somebody does who reaches the target alone."""
        config = self.flows[flow]
        return settled(config, self.clusters[config.target], self.ledger, self.schedule)

    def change(self, kind: type[DirectionChange], *, cut: Cut | None = None) -> None:
        """West over east is promoted, or demoted."""
        ids: dict[str, Any] = {"cluster_id": "cluster-of-west", "former_id": "cluster-of-east"}
        change = kind(cluster="west", former="east", topics=None, **ids)
        if cut is not None:
            change = Demoted(
                cluster="west", former="east", topics=None, **ids, cut_operation=cut.operation_id
            )
        self.operations.record(change, flow=None, reason="a test")

    def promote(self) -> Cut:
        """West takes over from east: what is there now is the cut."""
        self.change(Promoted)
        return self.cut(FORWARD)

    def demote(self) -> Cut:
        cut = self.cut(BACK)
        require_usable(self.flows[FORWARD], cut)
        self.change(Demoted, cut=cut)
        return cut

    def cut(self, flow: str) -> Cut:
        config = self.flows[flow]
        ports = CutPorts(
            self.clusters[config.source],
            self.clusters[config.target],
            self.state,
            MemoryFactLog(self.ledger, self.schedule),
            self.schedule,
        )
        operation_id = f"cut at {self.schedule.now_ms()}"
        return take_cut([CutFlow(config, TopicSelection(config.topics))], ports, operation_id=operation_id)

    # -- what came of it -------------------------------------------------------------------------

    def values(self, alias: str) -> list[str]:
        """What a reader of the log sees."""
        found = []
        for record in self.log(alias).readable():
            size = record.content[2] // 2
            found.append(record.content[3 : 3 + size].decode())
        return found

    def syncs(self, flow: str) -> list[tuple[Any, ...]]:
        """Kind, cause, and ranges of the source and of the target, in the order of recording."""
        columns = ("kind", "cause", "source_start", "source_end", "target_start", "target_end")
        rows = [row for row in self.ledger.rows("offset_syncs") if row["flow"] == flow]
        return [tuple(row[name] for name in columns) for row in rows]

    def stop(self, flow: str) -> str | None:
        """Why the partition stands still."""
        found = self.state.stopped_partitions(flow)
        return next((str(stop.cause) for stop in found.values()), None)

    def stop_message(self, flow: str) -> str:
        return next(stop.message for stop in self.state.stopped_partitions(flow).values())

    def broken_invariants(self) -> dict[str, object]:
        """Rows that audits return, by audit."""
        audits = [query for query in catalog.queries().values() if query.is_audit]
        answers = run_queries(audits, {}, self.ledger.at(self.ledger.latest()))
        return {name: rows.to_pylist() for name, rows in answers.items() if rows.num_rows}


def _flow(name: str, source: str, target: str, *, opposite: str) -> FlowConfig:
    return FlowConfig(
        name=name,
        source=source,
        target=target,
        topics=(".*",),
        topic_naming=NamingKind.IDENTITY,
        round_seconds=0.5,
        opposite=opposite,
    )
