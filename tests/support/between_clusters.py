"""Clusters with flows between them, applications that write, and groups that write down what they read and move.

Every record names the topic that it was written to, and a number; its copies keep both. What a group has read is what
its consumers got, and what lies in a log is what an independent reader gets: the ledger is asked for neither.
"""

import random
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from pyspark.sql import SparkSession

from ledger import Ledger
from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.context import operator_operations
from ledger.facts.group_offsets import CommitResult, OffsetsSet, OffsetsSetResult
from ledger.facts.operations import Why
from ledger.offsets.first_unread import Place, first_unread
from ledger.offsets.links import count
from ledger.recorders.observation import Subject
from ledger.recorders.run import record_clusters
from ledger.sandbox import SandboxCluster
from ledger.sandbox.groups import TO_THE_END, GroupPlan, consume
from ledger.sandbox.reading import Readings, read_topics, reader_properties
from ledger.sandbox.workload import create_topics
from ledger.store import answers
from ledger.store.catalog import Value
from ledger.store.snapshots import DeltaSnapshot
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.pair_ledgers import Log, PairLedger
from tests.support.runs import run
from tests.support.topologies import Topic, Topology, Trip

PARTITIONS = 2
_AT_ONCE = 4
_RECORDED = frozenset(Subject) - {Subject.PERMISSIONS}
_FLUSHED_WITHIN_S = 60.0

Records = dict[int, bytes]
"""What a reader gets from a partition, by offset."""
Answer = tuple[int | None, str, int | None, int | None, int | None, int | None]
"""An offset and its status; how many offsets are repeated, ahead, of others, expired."""
_T = TypeVar("_T")
_R = TypeVar("_R")


class Habit(StrEnum):
    """What a group does before it is asked for, at last."""

    STAYS = "stays"  # reads at two times
    RETURNS = "returns"  # has moved and read there; the move was recorded
    RETURNS_UNSEEN = "returns-unseen"  # the same, and nobody recorded the move
    RESTS = "rests"  # has moved, and read nothing since; the move was recorded
    IDLES = "idles"  # has never read a record


@dataclass
class Traveller:
    """A group on one side of a trip, `side` 0 or 1, with everything that it has read and kept."""

    name: str
    trip: Trip
    side: int
    habit: Habit
    read: set[bytes] = field(default_factory=set)
    been: set[tuple[str, str]] = field(default_factory=set)
    """Clusters and topics of which it got records."""

    @property
    def cluster(self) -> str:
        return self.trip[0][self.side].cluster

    @property
    def pairs(self) -> list[tuple[Topic, Topic]]:
        """Each topic here with the one there."""
        return [(pair[self.side], pair[1 - self.side]) for pair in self.trip]


@dataclass(frozen=True)
class Clusters:
    """Real clusters with the flows of a topology, and a ledger of their own; all that chance decides is by `chance`."""

    topology: Topology
    topic: str
    servers: Mapping[str, str]
    config: MirrorConfig
    spark: SparkSession
    chance: random.Random
    producers: dict[Topic, "Writer"] = field(default_factory=dict)

    def name(self, topic: Topic) -> str:
        return topic.name.format(self.topic)

    def partitions(self, topic: Topic) -> list[Log]:
        return [Log(topic.cluster, self.name(topic), partition) for partition in range(PARTITIONS)]

    def write(self) -> None:
        """Some records to every topic that applications write to, some of them in transactions."""
        for topic in self.topology.written:
            if topic not in self.producers:
                self.producers[topic] = Writer(topic, self.servers[topic.cluster], self.name(topic))
            self.producers[topic].write(self.chance)

    def copy(self, flows: Iterable[str]) -> int:
        """Runs of these flows side by side, each until caught up; returns how many records were copied."""
        summaries = at_once(lambda flow: run(self.config, self.spark, flow), sorted(flows))
        assert not any(summary.is_unfinished for summary in summaries)
        return sum(summary.records for summary in summaries)

    def some_flows(self) -> list[str]:
        """At least one; mostly not all, so that something is on its way."""
        flows = sorted(self.topology.flows)
        return self.chance.sample(flows, self.chance.randint(1, len(flows)))

    def now_ms(self) -> int:
        """By the clock of recorders."""
        return SystemClock().now_ms()

    def record(self) -> "Recorded":
        """What groups have committed and where partitions end, recorded; and all that is recorded by now."""
        record_clusters(self.config, [], _RECORDED, stop=threading.Event(), once=True)
        at = answers.snapshot(self.config, None)
        said = dict(_answers(Ledger.open(self.config), self.topology.trips))
        return Recorded(at, PairLedger(at), self.topology, said)

    def logs(self) -> dict[Log, Records]:
        """What lies in all partitions, as a reader of committed records gets it."""
        found = at_once(self._logs_of, self.topology.clusters)
        return {log: records for logs in found for log, records in logs.items()}

    def _logs_of(self, cluster: str) -> dict[Log, Records]:
        names = [self.name(topic) for topic in self.topology.topics if topic.cluster == cluster]
        return _by_log(cluster, read_topics(self.servers[cluster], names))

    # -- groups ----------------------------------------------------------------------------------

    def consume(self, group: Traveller, stops: Mapping[Log, int]) -> dict[Log, Records]:
        """Real consumers of the group read partitions of its cluster up to these offsets, and commit."""
        plan = GroupPlan(group.name, {(log.topic, log.partition): stop for log, stop in stops.items()})
        return _by_log(group.cluster, consume(self.servers[group.cluster], plan))

    def stops(self, group: Traveller, ends: Mapping[Log, int]) -> dict[Log, int]:
        """Random places up to which the group is to read; of some partitions nothing."""
        return {log: self._stop(ends[log]) for log in self.partitions_of(group)}

    def read_on(self, group: Traveller, stops: Mapping[Log, int]) -> None:
        """What it got is written down."""
        for log, records in self.consume(group, stops).items():
            group.read |= set(records.values())
            group.been |= {(log.cluster, log.topic)} if records else set()

    def read_to_the_end(self, group: Traveller) -> dict[Log, Records]:
        return self.consume(group, dict.fromkeys(self.partitions_of(group), TO_THE_END))

    def move(self, group: Traveller, places: Mapping[Log, Place]) -> None:
        """The group leaves its cluster and gets offsets at the other one."""
        group.side = 1 - group.side
        offsets = [
            ClientPartition(log.topic, log.partition, place.offset)
            for log, place in places.items()
            if place.offset is not None
        ]
        consumer = Consumer(reader_properties(self.servers[group.cluster], group.name))
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        finally:
            consumer.close()

    def record_moves(self, moves: Mapping[str, OffsetsSet]) -> None:
        """By group what `offsets set` records of its move, when it was read back."""
        operations = operator_operations(self.config)
        operation_id = operations.record_parts(list(moves.values()), Why("moved"))
        results = [_all_set(intended) for intended in moves.values()]
        operations.record_parts(results, Why("moved", operation_id=operation_id))

    def partitions_of(self, group: Traveller) -> list[Log]:
        """What the group reads at its cluster."""
        return [log for topic, _ in group.pairs for log in self.partitions(topic)]

    def ways_of(self, group: Traveller) -> Iterator[tuple[tuple[Topic, Topic], Log, Log]]:
        """Its topics here and there, partition by partition."""
        for here, there in group.pairs:
            for one, other in zip(self.partitions(here), self.partitions(there), strict=True):
                yield (here, there), one, other

    def _stop(self, end: int) -> int:
        return self.chance.randint(0, end) if self.chance.random() < 0.8 else 0


def _answers(ledger: Ledger, trips: Iterable[Trip]) -> Iterator[tuple[tuple[str, Log, Log], Answer]]:
    for source, target in sorted({clusters for trip in trips for clusters in _both_ways(trip)}):
        for row in ledger.translate_between(source, target):
            if row.group_id is not None and row.target_topic is not None and row.target_partition is not None:
                here = Log(source, row.source_topic, row.source_partition)
                there = Log(target, row.target_topic, row.target_partition)
                counts = row.repeated, row.ahead, row.others, row.expired
                yield (row.group_id, here, there), (row.target_offset, row.status, *counts)


def _both_ways(trip: Trip) -> Iterator[tuple[str, str]]:
    one, other = (topic.cluster for topic in trip[0])
    yield one, other
    yield other, one


def summed_up(place: Place) -> Answer:
    """As the query answers."""
    ahead, others, expired = (count(ranges) for ranges in (place.ahead, place.others, place.expired))
    return place.offset, str(place.status), place.repeats, ahead, others, expired


def _all_set(intended: OffsetsSet) -> OffsetsSetResult:
    results = (
        CommitResult(
            source_topic=one.source_topic,
            source_partition=one.source_partition,
            topic=one.topic,
            partition=one.partition,
            former=one.former,
            to=one.to,
            result="set",
        )
        for one in intended.commits
    )
    return OffsetsSetResult(group=intended.group, results=tuple(results))


def _by_log(cluster: str, readings: Readings) -> dict[Log, Records]:
    return {
        Log(cluster, *at): {one.offset: one.record.value or b"" for one in placed}
        for at, placed in readings.items()
    }


@dataclass(frozen=True)
class Recorded:
    """The ledger at a cut, and who answers from it."""

    at: DeltaSnapshot
    ledger: PairLedger
    topology: Topology
    answers: Mapping[tuple[str, Log, Log], Answer]
    """What `offsets translate --from --to` answers of all groups, by group and both partitions."""

    def place(self, group: Traveller, here: Log, there: Log) -> Place:
        """Where the group continues there: the one place where tests ask; the command agrees with the algebra."""
        known = self.ledger.group(group.name, here, there)
        place = first_unread(self.ledger.pair(here, there), known)
        found = self.answers.get((group.name, here, there))
        if found is not None or self._is_asked(group, here, there):
            assert found == summed_up(place), (group.name, here, there, place)
        return place

    def _is_asked(self, group: Traveller, here: Log, there: Log) -> bool:
        """Whether the query has an answer: of a group with commits, and of a topic's own name where that is there."""
        of_topic = [here._replace(partition=partition) for partition in range(PARTITIONS)]
        has_commits = any(self.ledger.last_commit(group.name, log) is not None for log in of_topic)
        return has_commits and (group.name, here, there._replace(topic=here.topic)) not in self.answers

    def places_by_one_flow(self) -> dict[tuple[str, Log, Log], int]:
        """What each flow alone answers, by group, source and target partition; without answers that have no offset."""
        clusters = {row["flow"]: row for row in self.at.rows("writers", [("event", "=", "claimed")])}
        found = {}
        for flow in sorted(self.topology.flows):
            source, target = clusters[flow]["source_cluster"], clusters[flow]["target_cluster"]
            params: dict[str, Value] = {"flow": flow, "driver_lives": False}
            for row in answers.run_query(self.at, "offset_translation", params).to_pylist():
                here = Log(source, row["source_topic"], row["source_partition"])
                there = Log(target, row["target_topic"], row["target_partition"])
                if row["target_offset"] is not None:
                    found[row["group_id"], here, there] = row["target_offset"]
        return found


@dataclass
class Writer:
    """Writes to a topic by two producers, one of them in transactions; every third transaction is aborted."""

    topic: Topic
    servers: str
    name: str
    taken: int = 0
    transactions: int = 0

    def __post_init__(self) -> None:
        own = {"bootstrap.servers": self.servers, "linger.ms": 5, "log_level": 0}
        self._plain = Producer({**own, "enable.idempotence": True})
        self._transactional = Producer({**own, "transactional.id": f"{self.name}-writer"})
        self._transactional.init_transactions(_FLUSHED_WITHIN_S)

    def write(self, chance: random.Random) -> None:
        if chance.random() < 0.5:
            self._in_a_transaction(chance)
        self._send(self._plain, chance)
        assert self._plain.flush(_FLUSHED_WITHIN_S) == 0

    def _in_a_transaction(self, chance: random.Random) -> None:
        self._transactional.begin_transaction()
        self._send(self._transactional, chance)
        assert self._transactional.flush(_FLUSHED_WITHIN_S) == 0
        self.transactions += 1
        if self.transactions % 3 == 0:
            self._transactional.abort_transaction(_FLUSHED_WITHIN_S)
        else:
            self._transactional.commit_transaction(_FLUSHED_WITHIN_S)

    def _send(self, producer: Producer, chance: random.Random) -> None:
        for partition in range(PARTITIONS):
            for _ in range(chance.randint(1, 5)):
                value = f"{self.topic.cluster} {self.topic.name} {self.taken}".encode()
                producer.produce(self.name, value, partition=partition)
                self.taken += 1


def written_to(record: bytes) -> Topic:
    """The topic that an application wrote a record to."""
    cluster, name, _number = record.decode().split(" ")
    return Topic(cluster, name)


def at_once(work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Several at a time; the results in order."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as side_by_side:
        return list(side_by_side.map(work, items))


def clusters_of(
    topology: Topology,
    clusters: Mapping[str, SandboxCluster],
    spark: SparkSession,
    folder: Path,
    chance: random.Random,
) -> Clusters:
    """The topics are there and empty, and the ledger too."""
    topic = f"moved-{uuid.uuid4().hex[:6]}"
    servers = {name: at for name, at in servers_of(clusters).items() if name in topology.clusters}
    for cluster in topology.clusters:
        names = [one.name.format(topic) for one in topology.topics if one.cluster == cluster]
        create_topics(servers[cluster], names, partitions=PARTITIONS)
    groups = f'groups = ["{topic}-.*"]'
    flows = {name: f"{lines.format(topic)}\n{groups}" for name, lines in topology.flows.items()}
    config = write_config(folder, servers, flows)
    init_ledger(config)
    return Clusters(topology, topic, servers, config, spark, chance)
