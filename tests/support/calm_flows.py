"""A flow between in-memory clusters in calm weather, one driver after another; only what a test does goes wrong."""

import random
from collections import Counter
from typing import Any

from ledger.changeover.settling import SettledFlow
from ledger.config.values import FlowConfig, Policy, TargetMode
from ledger.facts.direction import DirectionChange
from ledger.facts.requests import REQUEST_CLASSES, Receipt, RequestKind
from ledger.store import catalog
from ledger.store.session import OperatorOperations
from ledger.store.sql import run_queries
from ledger.topics.naming import NamingKind
from tests.simulation.crash_points import CrashPlan, CrashPoint
from tests.simulation.drivers import FlowDrivers, RunningDriver, World
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.settlers import settled
from tests.simulation.weather import StormyWeather

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
            round_seconds=0.5,
            target_mode=mode,
            on_loss=on_loss,
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
            log.append(application_batch([content(b"k", value.encode())], [now_ms]), now_ms=now_ms)

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
        names = {topic.topic_id: name for name, topic in self.east.topic_by_name.items()}
        return {names[topic_id]: stop.cause for (topic_id, _), stop in found.items()}

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


def values(log: PartitionLog) -> list[str]:
    """What a reader of the log sees, of records of `CalmFlow.write`."""
    found = []
    for record in log.readable():
        size = record.content[2] // 2
        found.append(record.content[3 : 3 + size].decode())
    return found


def times(log: PartitionLog) -> list[int]:
    return [record.timestamp for record in log.readable()]
