"""What goes wrong during a simulation, drawn from its seed."""

import random
from collections.abc import Callable, Sequence
from enum import StrEnum

from ledger.adapters.memory.kafka import MemoryCluster
from ledger.adapters.memory.network import Fate
from ledger.adapters.memory.partition_log import PartitionLog, Replication
from ledger.adapters.memory.schedule import Schedule
from ledger.adapters.memory.stored_batches import application_batch, content

FOREIGN_KEY = b"somebody else"


class Fault(StrEnum):
    """Kinds of trouble; a simulation has a random set of them. Numbers are those of the fault catalogue."""

    LOST_CONNECTIONS = "lost connections"  # 28
    LEADERS_MOVE = "leaders move"  # 1, 2
    NODES_RESTART = "nodes restart"  # 3; brokers forget what they knew of producers
    REPLICAS_FALL_BEHIND = "replicas fall behind"  # 2, 9
    CLUSTER_UNREACHABLE = "cluster unreachable"  # 4, 5, 6
    TASKS_DIE = "tasks die"  # 29, 30, 35
    DRIVERS_DIE = "drivers die"  # 30, 31, 32
    ZOMBIES = "zombies"  # 33: tasks and drivers that are given up and live on
    COMPACTION = "compaction"  # 19
    FOREIGN_WRITES = "foreign writes"  # 27


class StormyWeather:
    """Implements `network.Weather`; calm once `is_over`."""

    def __init__(self, rng: random.Random, *, loses: bool) -> None:
        self._rng = rng
        self._loss = rng.choice((0.01, 0.05, 0.15)) if loses else 0.0
        self._slowest_s = rng.choice((0.002, 0.01, 0.05))
        self.is_over = False

    def delay_s(self) -> float:
        return 0.001 if self.is_over else self._rng.uniform(0.0005, self._slowest_s)

    def fate(self, *, is_fetch: bool) -> Fate:
        chance = self._loss / 4 if is_fetch else self._loss
        if self.is_over or self._rng.random() >= chance:
            return Fate.ANSWERED
        return self._rng.choice((Fate.LOST_BEFORE, Fate.LOST_AFTER))

    def survivors(self, waiting: int) -> int:
        return self._rng.randint(0, waiting)

    def lateness_s(self) -> float:
        return self._rng.choice((0.0, 0.005, 0.1, 0.3))

    def hears_of_leaders(self) -> bool:
        return self.is_over or self._rng.random() < 0.7


class Storm:
    """Lets faults of the given kinds happen at random moments until it is over."""

    def __init__(
        self,
        rng: random.Random,
        schedule: Schedule,
        source: MemoryCluster,
        target: MemoryCluster,
        actions: dict[Fault, Callable[[], None]],
    ) -> None:
        self._rng = rng
        self._schedule = schedule
        self._source = source
        self._target = target
        own = {
            Fault.LEADERS_MOVE: self._move_leader,
            Fault.NODES_RESTART: self._restart_node,
            Fault.REPLICAS_FALL_BEHIND: self._hold_back,
            Fault.CLUSTER_UNREACHABLE: self._cut_off,
            Fault.FOREIGN_WRITES: self._write_foreign,
        }
        self._actions = {**own, **actions}
        self.foreign: set[tuple[str, int]] = set()
        self.is_over = False

    def start(self, faults: Sequence[Fault]) -> None:
        self._faults = [fault for fault in faults if fault in self._actions]
        if self._faults:
            self._schedule.after(self._rng.uniform(0.05, 0.5), self._tick)

    def end(self) -> None:
        """Everything is put right: leaders are there, replicas follow, clusters answer."""
        self.is_over = True
        for cluster in (self._source, self._target):
            cluster.available = True
            for topic in cluster.topic_by_name.values():
                for partition, log in enumerate(topic.logs):
                    if log.replication is not Replication.FULL:
                        log.fail_over(keep_held=True)
                    if topic.leaders[partition] is None:
                        topic.leaders[partition] = self._rng.choice(cluster.nodes)

    def _tick(self) -> None:
        if not self.is_over:
            self._actions[self._rng.choice(self._faults)]()
            self._schedule.after(self._rng.uniform(0.02, 0.6), self._tick)

    def _any_log(self, cluster: MemoryCluster) -> tuple[str, int, PartitionLog] | None:
        places = [
            (topic.name, number, log)
            for topic in cluster.topic_by_name.values()
            for number, log in enumerate(topic.logs)
        ]
        return self._rng.choice(places) if places else None

    def _move_leader(self) -> None:
        cluster = self._rng.choice((self._source, self._target))
        place = self._any_log(cluster)
        if place is not None:
            node = self._rng.choice((*cluster.nodes, None))
            cluster.move_leader(place[0], place[1], node, keep_held=self._rng.random() < 0.5)

    def _restart_node(self) -> None:
        cluster = self._rng.choice((self._source, self._target, self._target))
        cluster.restart(self._rng.choice(cluster.nodes))

    def _hold_back(self) -> None:
        place = self._any_log(self._target)
        if place is None or place[2].replication is not Replication.FULL:
            return
        if self._rng.random() < 0.5:
            place[2].hold()
        else:
            place[2].replication = Replication.REFUSED
        keep_held = self._rng.random() < 0.5
        self._schedule.after(self._rng.uniform(0.05, 0.5), lambda: place[2].fail_over(keep_held=keep_held))

    def _cut_off(self) -> None:
        cluster = self._rng.choice((self._source, self._target))
        cluster.available = False

        def put_right() -> None:
            cluster.available = True

        self._schedule.after(self._rng.uniform(0.05, 0.6), put_right)

    def _write_foreign(self) -> None:
        place = self._any_log(self._target)
        if place is not None and place[2].replication is Replication.FULL:
            name, number, log = place
            count = self._rng.randint(1, 3)
            now_ms = self._schedule.now_ms()
            log.append(
                application_batch([content(FOREIGN_KEY, None)] * count, [now_ms] * count), now_ms=now_ms
            )
            self.foreign.add((name, number))
