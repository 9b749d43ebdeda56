"""Flows between in-memory clusters in calm weather, one driver after another; only what a test does goes wrong."""

import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ledger.changeover.cut import CutFlow, CutPorts, take_cut
from ledger.changeover.settling import SettledFlow
from ledger.config.values import FlowConfig, Policy, TargetMode
from ledger.errors import PreconditionError
from ledger.facts.cut_offsets import Cut
from ledger.facts.direction import Demoted, DirectionChange, Promoted
from ledger.facts.operations import DriverStarting
from ledger.facts.requests import REQUEST_CLASSES, Receipt, RequestKind
from ledger.kafka.codecs import LZ4
from ledger.mirror.starts import require_usable
from ledger.store import catalog
from ledger.store.session import OperatorOperations
from ledger.store.sql import run_queries
from ledger.topics.naming import NamingKind, TopicSelection
from tests.simulation.crash_points import CrashPlan, CrashPoint
from tests.simulation.drivers import FlowDrivers, RunningDriver, World
from tests.simulation.faults import Fault
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import StoredBatch, application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.settlers import settled
from tests.simulation.weather import StormyWeather
from tests.support.ledgers import operators

# -- One flow --------------------------------------------------------------------------------------

TOPIC = "orders"
_ENDS_WITHIN_S = 60.0


class CalmFlow:
    """Flow `f` from east to west under the same names; `crash`: where the first driver dies."""

    def __init__(
        self,
        *,
        mode: TargetMode = TargetMode.EXCLUSIVE,
        crash: CrashPoint | None = None,
        topics: tuple[str, ...] = (TOPIC,),
        on_loss: Policy = Policy.CONTINUE,
        on_source_truncated: Policy = Policy.STOP,
        round_seconds: float = 0.5,
        **settings: str,
    ) -> None:
        rng = random.Random(1)
        self.schedule = Schedule()
        self.ledger = MemoryLedger()
        self.east, self.west = (MemoryCluster(alias, self.schedule) for alias in ("east", "west"))
        weather = StormyWeather(rng, Counter(), loses=False)
        weather.is_over = True
        self.plan = plan = CrashPlan(rng, frozenset({crash} if crash else ()), chance=0.0, certain=1)
        clusters = {"east": self.east, "west": self.west}
        world = World(
            rng,
            self.schedule,
            clusters,
            self.ledger,
            self.schedule,
            weather,
            plan,
            Counter[str](),
            lambda: self.schedule,
        )
        flow = FlowConfig(
            name="f",
            source="east",
            target="west",
            topics=(".*",),
            topic_naming=NamingKind.IDENTITY,
            round_seconds=round_seconds,
            target_mode=mode,
            on_loss=on_loss,
            on_source_truncated=on_source_truncated,
        )
        self._drivers = FlowDrivers(world, flow)
        self._operations = OperatorOperations(
            MemoryFactLog(self.ledger, self.schedule), operator="memory", new_id=world.new_id
        )
        for topic in topics:
            self.east.create_topic(topic, partitions=1, replication_factor=1, configuration=settings)

    def source(self, topic: str = TOPIC) -> PartitionLog:
        return self.east.log(topic, 0)

    def target(self, topic: str = TOPIC) -> PartitionLog:
        return self.west.log(topic, 0)

    def write(self, *values: str, topic: str = TOPIC, at: MemoryCluster | None = None) -> None:
        """Records of the key `k`, each a batch of its own, a second after one another."""
        log = (at or self.east).log(topic, 0)
        for value in values:
            self.schedule.jump(1.0)
            now_ms = self.schedule.now_ms()
            log.append(_alone(value, now_ms), now_ms=now_ms)

    def run(self, seconds: float = 3.0) -> None:
        """One driver for a while, or until it dies."""
        self._drivers.run_a_while(seconds)

    def catch_up(self) -> None:
        """One driver until it has caught up; raises what ended it."""
        driver = self._drivers.start(until_caught_up=True)
        self.schedule.wait(_ENDS_WITHIN_S, lambda: driver.actor.done)
        self._drivers.bury_the_dead()
        if driver.actor.error is not None:
            raise driver.actor.error

    def start(self) -> RunningDriver:
        """A driver, beside others that may live."""
        return self._drivers.start(until_caught_up=False)

    def end(self, *drivers: RunningDriver) -> None:
        """Ask them to end, and wait until all have."""
        for driver in drivers:
            driver.stop.is_asked = True
        self.schedule.wait(_ENDS_WITHIN_S * 2, lambda: all(driver.actor.done for driver in drivers))
        self._drivers.bury_the_dead()

    def settle(self, **how: Any) -> SettledFlow:
        """As somebody does who reaches the target alone; `how` as `settled` has it."""
        return settled(self._drivers.flow, self.west, self.ledger, self.schedule, **how)

    def declare(self, change: DirectionChange) -> None:
        """What an operator says of the clusters."""
        self._operations.record(change, flow=None, reason="test")

    def receipts(self) -> list[str]:
        """Results, in the order in which they were given."""
        return [content["result"] for content in self._drivers.state.events("f", Receipt.kind)]

    def ask(self, kind: RequestKind, **content: Any) -> None:
        given = {"topic": TOPIC, "partition": 0, **content}
        self._operations.record(REQUEST_CLASSES[kind](**given), flow="f", reason="test")

    def stops(self) -> dict[str, str]:
        """By topic why its partition stands still."""
        found = self._drivers.state.stopped_partitions("f")
        known = [*self.east.topic_by_name.values(), *self.east.deleted]
        names = {topic.topic_id: topic.name for topic in known}
        return {names[topic_id]: stop.cause for (topic_id, _), stop in found.items()}

    def findings(self) -> set[str]:
        """Names of those that are open."""
        return {name for name, _, _ in self._drivers.state.open_findings("f")}

    def syncs(self) -> list[tuple[Any, ...]]:
        """Kind, cause, and ranges of the source and of the target, in the order of recording."""
        columns = ("kind", "cause", "source_start", "source_end", "target_start", "target_end")
        return [tuple(row[name] for name in columns) for row in self.ledger.rows("offset_syncs")]

    def broken_invariants(self) -> dict[str, object]:
        """Rows that audits return, by audit."""
        at = self.ledger.at(self.ledger.latest())
        audits = [query for query in catalog.queries().values() if query.is_audit]
        assert len(audits) >= 6
        answers = run_queries(audits, {}, at)
        return {name: rows.to_pylist() for name, rows in answers.items() if rows.num_rows}


def _alone(value: str, now_ms: int) -> StoredBatch:
    """A batch of one record, which is compressed and not tiny, so it lies alone at the target, too."""
    padding = random.Random(value).randbytes(1_100)
    return application_batch(
        [content(b"k", value.encode(), [("padding", padding)])], [now_ms], attributes=LZ4
    )


def values(log: PartitionLog) -> list[str]:
    """What a reader of the log sees, of records of `CalmFlow.write`."""
    found = []
    for record in log.readable():
        size = record.content[2] // 2
        found.append(record.content[3 : 3 + size].decode())
    return found


def times(log: PartitionLog) -> list[int]:
    return [record.timestamp for record in log.readable()]


# -- Two opposite flows ----------------------------------------------------------------------------

FORWARD, BACK = "east-to-west", "west-to-east"


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
            batch = _alone(value, now_ms)
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


# -- Lives in which the direction changes ----------------------------------------------------------

_LOST = f"struck: {Fault.LOST_CONNECTIONS}"


def live_in_storms(seeds: Iterable[int]) -> None:
    """Each of these lives keeps every record at both sides once, and all invariants; something happens in them."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        print(f"seed {seed}")
        pair = CalmPair(frozenset(CrashPoint), chance=0.15, is_stormy=True, seed=seed)
        happened["records"] += len(live_with_changes(pair, random.Random(seed)))
        assert pair.broken_invariants() == {}
        happened += pair.tally
        happened["deaths"] += pair.plan.crashed.total()
    print(dict(happened))
    assert happened["records"] > 10
    assert min(happened[what] for what in ("deaths", "settled", _LOST)) > 0, "all of it happens"


def live_with_changes(pair: CalmPair, rng: random.Random) -> list[str]:
    """Five turns of a life with a change of direction behind each; what applications have written."""
    holder, other, flow, cut = "east", "west", FORWARD, None
    expected: list[str] = []
    for turn in range(5):
        for _ in range(rng.randint(0, 3)):
            expected.append(f"{holder[0]}{turn}-{len(expected)}")
            pair.write(holder, expected[-1])
            if rng.random() < 0.3:
                pair.mark(rng.choice((holder, other)))
            if rng.random() < 0.6:
                pair.run_to_death(flow, from_cut=cut)
                if pair.is_stormy and rng.random() < 0.4:
                    with suppress(PreconditionError):  # it never ran, or not in this direction
                        pair.tally["settled"] += pair.settle(flow).records
        _catch_up(pair, flow, cut)
        for alias in ("east", "west"):
            found = pair.values(alias)
            assert found == expected[len(expected) - len(found) :], (turn, alias)
            if rng.random() < 0.3:
                pair.log(alias).delete_before(rng.randint(0, pair.log(alias).high_watermark))
        cut = pair.promote() if holder == "east" else None
        if cut is None:
            pair.demote()
        holder, other, flow = other, holder, BACK if flow == FORWARD else FORWARD
    return expected


def _catch_up(pair: CalmPair, flow: str, cut: Cut | None) -> None:
    """What was settled is paired first: then a driver stops at what others wrote behind it, and the next continues."""
    for _ in range(2):
        assert pair.run(flow, from_cut=cut) is None
        if pair.stop(flow) is None:
            return
    assert pair.stop(flow) is None, pair.stop_message(flow)
