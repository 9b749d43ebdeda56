"""What goes wrong at clusters during a simulation, at random moments drawn from its seed."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.simulation.faults import Fault
from tests.simulation.kafka.cluster import Access, MemoryCluster
from tests.simulation.kafka.partition_log import (
    DEFAULT_MAX_MESSAGE_BYTES,
    Garbling,
    PartitionLog,
    Replication,
)
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import application_batch, content

FOREIGN_KEY = b"somebody else"
_TWO_DAYS_S = 2 * 86_400
_SMALL_MESSAGES = 105  # many batches are above that, and some records


@dataclass(frozen=True, slots=True)
class Place:
    """A partition that something happens to."""

    cluster: MemoryCluster
    topic: str
    number: int

    @property
    def log(self) -> PartitionLog:
        return self.cluster.log(self.topic, self.number)


@dataclass(frozen=True, slots=True)
class Targets:
    """Where trouble may happen: topics that are mirrored from, and topics that are mirrored to, by cluster."""

    sources: Sequence[tuple[MemoryCluster, Callable[[], Iterable[str]]]]
    targets: Sequence[tuple[MemoryCluster, Callable[[], Iterable[str]]]]

    @property
    def clusters(self) -> list[MemoryCluster]:
        return list({id(cluster): cluster for cluster, _ in (*self.sources, *self.targets)}.values())


class Storm:
    """Lets faults of the given kinds happen until it is over, and tallies them.

    `actions` are those that are no cluster's own.
    """

    def __init__(
        self,
        rng: random.Random,
        schedule: Schedule,
        where: Targets,
        actions: dict[Fault, Callable[[], None]],
        tally: Counter[str],
    ) -> None:
        self._rng = rng
        self._schedule = schedule
        self._where = where
        self._tally = tally
        own = {
            Fault.LEADERS_MOVE: self._move_leader,
            Fault.NODES_RESTART: self._restart_node,
            Fault.NODES_HANG: self._hang_node,
            Fault.REPLICAS_FALL_BEHIND: self._hold_back,
            Fault.DISK_FULL: self._fill_disk,
            Fault.CLUSTER_UNREACHABLE: self._cut_off,
            Fault.FOREIGN_WRITES: self._write_foreign,
            Fault.PARTITIONS_ADDED: self._add_partitions,
            Fault.PERMISSIONS_DENIED: self._deny,
            Fault.SIZE_LIMITS: self._limit_size,
            Fault.PRODUCERS_EXPIRE: self._expire_producers,
            Fault.IDLE_DAY: self._pass_two_days,
            Fault.TARGET_RECOMPRESSES: self._recompress,
            Fault.TARGET_COMPACTS: self._compact_target,
            Fault.SOURCE_RETENTION: self._delete_records,
            Fault.SOURCE_UNCLEAN: lambda: self._lose_end(self._where.sources),
            Fault.TARGET_UNCLEAN: lambda: self._lose_end(self._where.targets),
            Fault.SOURCE_RECREATED: lambda: self._recreate(self._where.sources),
            Fault.TARGET_RECREATED: lambda: self._recreate(self._where.targets),
            Fault.SOURCE_DELETED: self._delete_topic,
            Fault.TARGET_RETENTION: self._delete_copies,
            Fault.GARBLED_READS: self._garble,
            Fault.SOURCE_RESTORED: self._copy_folders,
        }
        self._actions = {**own, **actions}
        self._weights: dict[Fault, float] = {}
        self.is_over = False

    def start(self, faults: Iterable[Fault]) -> None:
        self._weights = {fault: _WEIGHTS.get(fault, 1.0) for fault in Fault if fault in faults}
        self._weights = {f: weight for f, weight in self._weights.items() if f in self._actions}
        if self._weights:
            self._schedule.after(self._rng.uniform(0.05, 0.5), self._tick)

    def end(self) -> None:
        """Everything is put right: leaders are there, replicas follow, clusters answer and allow."""
        self.is_over = True
        for cluster in self._where.clusters:
            cluster.available = True
            cluster.denied.clear()
            for node in cluster.nodes:
                cluster.wake(node)
            for name, topic in cluster.topic_by_name.items():
                if "max.message.bytes" in topic.configuration:
                    cluster.alter_topic(name, {"max.message.bytes": str(DEFAULT_MAX_MESSAGE_BYTES)})
                for partition, log in enumerate(topic.logs):
                    log.garbling = None
                    if log.replication is not Replication.FULL:
                        log.fail_over(keep_held=True)
                    if topic.leaders[partition] is None:
                        topic.leaders[partition] = self._rng.choice(cluster.nodes)

    def _tick(self) -> None:
        if not self.is_over:
            fault = self._rng.choices(list(self._weights), weights=list(self._weights.values()))[0]
            self._tally[f"struck: {fault}"] += 1
            self._actions[fault]()
            self._schedule.after(self._rng.uniform(0.02, 0.6), self._tick)

    # -- places ----------------------------------------------------------------------------------

    def _any_topic(
        self, sides: Sequence[tuple[MemoryCluster, Callable[[], Iterable[str]]]]
    ) -> tuple[MemoryCluster, str] | None:
        found = [
            (cluster, name) for cluster, names in sides for name in names() if name in cluster.topic_by_name
        ]
        return self._rng.choice(found) if found else None

    def _any_place(self, sides: Sequence[tuple[MemoryCluster, Callable[[], Iterable[str]]]]) -> Place | None:
        topic = self._any_topic(sides)
        if topic is None:
            return None
        cluster, name = topic
        return Place(cluster, name, self._rng.randrange(len(cluster.topic_by_name[name].logs)))

    def _either_side(self) -> Place | None:
        return self._any_place(self._rng.choice((self._where.sources, self._where.targets)))

    def _later(self, least_s: float, most_s: float, action: Callable[[], None]) -> None:
        self._schedule.after(self._rng.uniform(least_s, most_s), action)

    # -- brokers ---------------------------------------------------------------------------------

    def _move_leader(self) -> None:
        place = self._either_side()
        if place is not None:
            node = self._rng.choice((*place.cluster.nodes, None))
            keep_held = self._rng.random() < 0.5
            place.cluster.move_leader(place.topic, place.number, node, keep_held=keep_held)

    def _restart_node(self) -> None:
        cluster = self._rng.choice(self._where.clusters)
        cluster.restart(self._rng.choice(cluster.nodes))

    def _hang_node(self) -> None:
        cluster = self._rng.choice(self._where.clusters)
        node = self._rng.choice(cluster.nodes)
        cluster.hang(node)
        self._later(0.2, 4.0, lambda: cluster.wake(node))

    def _hold_back(self) -> None:
        place = self._any_place(self._where.targets)
        if place is None or place.log.replication is not Replication.FULL:
            return
        log = place.log
        if self._rng.random() < 0.5:
            log.hold()
        else:
            log.replication = Replication.REFUSED
        keep_held = self._rng.random() < 0.5
        self._later(0.05, 0.5, lambda: log.fail_over(keep_held=keep_held))

    def _fill_disk(self) -> None:
        place = self._any_place(self._where.targets)
        if place is not None and place.log.replication is Replication.FULL:
            place.log.replication = Replication.NO_ROOM
            self._later(0.05, 0.5, lambda: place.log.fail_over(keep_held=True))

    def _cut_off(self) -> None:
        cluster = self._rng.choice(self._where.clusters)
        cluster.available = False

        def put_right() -> None:
            cluster.available = True

        self._later(0.05, 0.6, put_right)

    def _expire_producers(self) -> None:
        self._rng.choice(self._where.clusters).expire_producers()

    def _pass_two_days(self) -> None:
        self._schedule.jump(_TWO_DAYS_S)
        for cluster in self._where.clusters:
            cluster.expire_producers()

    # -- topics ----------------------------------------------------------------------------------

    def _write_foreign(self) -> None:
        place = self._any_place(self._where.targets)
        if place is not None and place.log.replication is Replication.FULL:
            count = self._rng.randint(1, 3)
            now_ms = self._schedule.now_ms()
            batch = application_batch([content(FOREIGN_KEY, None)] * count, [now_ms] * count)
            place.log.append(batch, now_ms=now_ms)

    def _add_partitions(self) -> None:
        topic = self._any_topic(self._where.sources)
        if topic is not None:
            cluster, name = topic
            total = len(cluster.topic_by_name[name].logs) + 1
            if cluster.available and total <= 4:
                cluster.add_partitions(name, total=total)

    def _deny(self) -> None:
        access = self._rng.choice(list(Access))
        sides = self._where.targets if access is Access.WRITE else self._where.sources
        topic = self._any_topic(self._rng.choice((sides, self._where.targets)))
        if topic is not None:
            cluster, name = topic
            cluster.denied.add((name, access))
            self._later(0.1, 1.5, lambda: cluster.denied.discard((name, access)))

    def _limit_size(self) -> None:
        topic = self._any_topic(self._where.targets)
        if topic is None:
            return
        cluster, name = topic
        cluster.alter_topic(name, {"max.message.bytes": str(_SMALL_MESSAGES)})

        def raise_again() -> None:
            if name in cluster.topic_by_name:
                cluster.alter_topic(name, {"max.message.bytes": str(DEFAULT_MAX_MESSAGE_BYTES)})

        self._later(0.1, 1.5, raise_again)

    def _recompress(self) -> None:
        topic = self._any_topic(self._where.targets)
        if topic is not None:
            codec = self._rng.choice(("producer", "gzip", "zstd", "uncompressed"))
            topic[0].alter_topic(topic[1], {"compression.type": codec})

    def _compact_target(self) -> None:
        place = self._any_place(self._where.targets)
        if place is not None:
            now_ms = self._schedule.now_ms()
            place.log.compact(self._rng.randint(0, place.log.end), now_ms=now_ms)

    def _delete_records(self) -> None:
        place = self._any_place(self._where.sources)
        if place is not None:
            log = place.log
            log.delete_before(self._rng.randint(log.log_start, max(log.log_start, log.last_stable)))

    def _delete_copies(self) -> None:
        """Now and then all that there is: what the target's retention does while nobody writes."""
        place = self._any_place(self._where.targets)
        if place is not None:
            log, is_all = place.log, self._rng.random() < 0.5
            end = log.high_watermark
            log.delete_before(end if is_all else self._rng.randint(log.log_start, end))

    def _garble(self) -> None:
        place = self._either_side()
        if place is None:
            return
        log = place.log
        log.garbling = self._rng.choice(list(Garbling))

        def put_right() -> None:
            log.garbling = None

        self._later(0.1, 1.5, put_right)

    def _lose_end(self, sides: Sequence[tuple[MemoryCluster, Callable[[], Iterable[str]]]]) -> None:
        place = self._any_place(sides)
        if place is not None:
            log = place.log
            lost = min(self._rng.choice((1, 5, 20, 100)), log.end - log.log_start)
            log.lose_end(log.end - lost)
            leaders = place.cluster.topic_by_name[place.topic].leaders
            leaders[place.number] = self._rng.choice(place.cluster.nodes)

    def _copy_folders(self) -> None:
        """A cluster is stopped, copied and started again; later the copy takes its place, while no broker answers."""
        topic = self._any_topic(self._where.sources)
        if topic is None:
            return
        cluster = topic[0]
        logs = [log for one in cluster.topic_by_name.values() for log in one.logs]
        for log in logs:
            log.fail_over(keep_held=True)
        copied = [(log, log.end, log.leader_epoch, log.truncations) for log in logs]

        def put_back() -> None:
            cluster.available = True
            for log, end, epoch, truncations in () if self.is_over else copied:
                if log.log_start <= end and log.truncations == truncations:
                    log.restore(end, epoch)
                    self._tally["sources put back"] += 1

        def stop() -> None:
            if not self.is_over:
                cluster.available = False
                self._later(0.5, 1.0, put_back)

        self._later(0.3, 2.0, stop)

    def _recreate(self, sides: Sequence[tuple[MemoryCluster, Callable[[], Iterable[str]]]]) -> None:
        topic = self._any_topic(sides)
        if topic is not None:
            topic[0].recreate_topic(topic[1])

    def _delete_topic(self) -> None:
        topic = self._any_topic(self._where.sources)
        if topic is not None:
            topic[0].delete_topic(topic[1])


_WEIGHTS = {
    Fault.PARTITIONS_ADDED: 0.5,
    Fault.SOURCE_RECREATED: 0.3,
    Fault.TARGET_RECREATED: 0.3,
    Fault.SOURCE_DELETED: 0.2,
    Fault.SOURCE_UNCLEAN: 0.5,
    Fault.TARGET_UNCLEAN: 0.5,
    Fault.IDLE_DAY: 0.3,
    Fault.TARGET_RETENTION: 0.7,
    Fault.SOURCE_RESTORED: 0.3,
}
"""How often beside the others, which have 1: a storm of these alone would leave nothing to look at."""
