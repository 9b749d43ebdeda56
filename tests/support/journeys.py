"""Lives of clusters and groups that move between them, in every topology, and what has to hold of them."""

import random
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import permutations
from pathlib import Path
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from pyspark.sql import SparkSession

from ledger import Ledger
from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.context import operator_operations
from ledger.facts.group_offsets import CommitResult, IntendedCommit, OffsetsSet, OffsetsSetResult
from ledger.facts.operations import Why
from ledger.facts.syncs import OffsetRange
from ledger.offsets.setting import seen_at
from ledger.offsets.statuses import TranslationStatus
from ledger.recorders.observation import Subject
from ledger.recorders.run import record_clusters
from ledger.sandbox import SandboxCluster
from ledger.sandbox.groups import TO_THE_END, GroupPlan, consume
from ledger.sandbox.reading import Readings, read_topics, reader_properties
from ledger.sandbox.workload import create_topics
from ledger.store import answers
from ledger.store.snapshots import DeltaSnapshot
from tests.support.algebra.first_unread import Place, first_unread
from tests.support.algebra.links import count
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.group_ledgers import Log, PairLedger
from tests.support.runs import run

# -- Topologies ------------------------------------------------------------------------------------
# What flows bring is written down by hand: it is what a group that moves may expect, whatever the flows did.


class Topic(NamedTuple):
    """A topic of a cluster; `{}` stands for the name that all topics of one run have in theirs."""

    cluster: str
    name: str = "{}"


Trip = tuple[tuple[Topic, Topic], ...]
"""What a group reads at one cluster, each topic with the one that it reads instead at another cluster."""


@dataclass(frozen=True, slots=True)
class Topology:
    """`flows`: lines of their configuration by name. `written`: where applications write.

    `brought`: by topic the topics whose own records flows bring there, besides those that are written there.
    `has_doubts`: others' records may be taken for copies that are not recorded yet: they lie where several flows write
    and none reads, or where the second flow of a chain has come further than the first.
    """

    flows: Mapping[str, str]
    written: tuple[Topic, ...]
    brought: Mapping[Topic, tuple[Topic, ...]]
    trips: tuple[Trip, ...]
    has_doubts: bool = False

    @property
    def clusters(self) -> list[str]:
        return sorted({topic.cluster for topic in self.topics})

    @property
    def topics(self) -> list[Topic]:
        """All topics: those that applications write to, and those that flows do."""
        return sorted({*self.written, *self.brought})

    def arrives(self, written: Topic, at: Topic) -> bool:
        """Whether what was written to a topic is there, or is to come there."""
        return written == at or written in self.brought.get(at, ())


def _flow(source: str, target: str, *lines: str) -> str:
    return "\n".join((f'source = "{source}"', f'target = "{target}"', "round_seconds = 0.5", *lines))


_KEPT = ('topics = ["{}"]', 'topic_naming = "identity"', 'target_mode = "shared"')
_RENAMED = (
    'topics = ["{}_REPLICA"]',
    'topic_naming = "rename"',
    r"""rename = [{{ match = '(.*)_REPLICA', to = '\1' }}]""",
    'target_mode = "shared"',
)
_EAST, _WEST, _NORTH = Topic("east"), Topic("west"), Topic("north")
_EAST_REPLICA, _WEST_REPLICA = Topic("east", "{}_REPLICA"), Topic("west", "{}_REPLICA")
_EAST_AT_WEST, _WEST_AT_EAST = Topic("west", "east.{}"), Topic("east", "west.{}")

SHARED = Topology(
    flows={
        "east-to-west": _flow("east", "west", *_KEPT),
        "west-to-east": _flow("west", "east", *_KEPT),
    },
    written=(_EAST, _WEST),
    brought={_EAST: (_WEST,), _WEST: (_EAST,)},
    trips=(((_EAST, _WEST),),),
)
"""One name, both ways."""

PREFIXED = Topology(
    flows={
        "east-to-west": _flow("east", "west", 'topics = ["{}"]'),
        "west-to-east": _flow("west", "east", 'topics = ["{}"]'),
    },
    written=(_EAST, _WEST),
    brought={_EAST_AT_WEST: (_EAST,), _WEST_AT_EAST: (_WEST,)},
    trips=(((_EAST, _EAST_AT_WEST), (_WEST_AT_EAST, _WEST)),),
)
"""Names with the source's alias before them, both ways."""

REPLICA = Topology(
    flows={
        "across": _flow("east", "west", *_RENAMED),
        "back": _flow("west", "east", *_RENAMED),
        "within-east": _flow("east", "east", *_RENAMED),
        "within-west": _flow("west", "west", *_RENAMED),
    },
    written=(_EAST_REPLICA, _WEST_REPLICA, _WEST),
    brought={_EAST: (_EAST_REPLICA, _WEST_REPLICA), _WEST: (_EAST_REPLICA, _WEST_REPLICA)},
    trips=(((_EAST, _WEST),), ((_EAST_REPLICA, _WEST),)),
    has_doubts=True,
)
"""What is published to `T_REPLICA` is copied to `T` in both clusters; somebody writes to one `T` directly as well."""

FAN_IN = Topology(
    flows={
        "east-to-west": _flow("east", "west", *_KEPT),
        "north-to-west": _flow("north", "west", *_KEPT),
    },
    written=(_EAST, _NORTH, _WEST),
    brought={_WEST: (_EAST, _NORTH)},
    trips=(((_EAST, _WEST),), ((_NORTH, _WEST),)),
)
"""Two sources to one target topic, to which applications write as well."""

CHAIN = Topology(
    flows={
        "east-to-north": _flow("east", "north", *_KEPT),
        "north-to-west": _flow("north", "west", *_KEPT, "relay = true"),
    },
    written=(_EAST, _NORTH, _WEST),
    brought={_NORTH: (_EAST,), _WEST: (_EAST, _NORTH)},
    trips=(((_EAST, _WEST),), ((_EAST, _NORTH),), ((_NORTH, _WEST),)),
    has_doubts=True,
)
"""From east by north to west; applications write everywhere."""

MESH = Topology(
    flows={
        f"{source}-to-{target}": _flow(source, target, *_KEPT)
        for source, target in permutations(("east", "north", "west"), 2)
    },
    written=(_EAST, _NORTH, _WEST),
    brought={_EAST: (_NORTH, _WEST), _NORTH: (_EAST, _WEST), _WEST: (_EAST, _NORTH)},
    trips=(((_EAST, _WEST),),),
)
"""One name at three clusters, each of which mirrors to both others."""

TOPOLOGIES: Mapping[str, Topology] = {
    "shared_names_both_ways": SHARED,
    "prefixed_both_ways": PREFIXED,
    "replica_topics": REPLICA,
    "fan_in": FAN_IN,
    "chain_of_three": CHAIN,
    "mesh_of_three": MESH,
}


# -- Clusters and groups ---------------------------------------------------------------------------
# Every record names the topic that it was written to, and a number; its copies keep both. What a group has read is
# what
# its consumers got, and what lies in a log is what an independent reader gets: the ledger is asked for neither.

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
        for row in ledger.translate(source, target):
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


# -- Journeys --------------------------------------------------------------------------------------
# No group skips a record, each reads again what it was promised, and something happens.

TWO_WAYS = (SHARED, MESH)
"""Where one flow mostly cannot know: its answers are `mirrored`."""
MOVED = (Habit.RETURNS, Habit.RETURNS_UNSEEN, Habit.RESTS)


@dataclass(frozen=True)
class Arrival:
    """A group at a partition of the other side, at last: what it had read, what lies there, what it got there."""

    group: Traveller
    here: Log
    there: Log
    place: Place
    read: frozenset[bytes]
    lies_here: Records
    lies_there: Records
    """Those for the group are in `wanted`; those that are here, or are to come here, are `carried`."""
    carried: Records
    wanted: Records
    got: Records

    @property
    def skipped(self) -> set[bytes]:
        return set(self.wanted.values()) - self.read - set(self.got.values())

    @property
    def unread(self) -> set[int]:
        return {offset for offset, record in self.wanted.items() if record not in self.read}

    @property
    def of_others(self) -> set[int]:
        """What it got that no flow carries between the two."""
        return self.got.keys() - self.carried.keys()

    @property
    def in_doubt(self) -> set[int]:
        """Records of others that may be carried and unread, as far as the ledger can tell, and are not."""
        return self.held(self.place.unread) - self.carried.keys() - self.unread

    @property
    def read_again(self) -> set[int]:
        return {offset for offset in self.got if offset in self.wanted} - self.unread - self.in_doubt

    def held(self, ranges: tuple[OffsetRange, ...]) -> set[int]:
        """Offsets of the ranges there that hold records."""
        return {offset for start, end in ranges for offset in range(start, end) if offset in self.lies_there}


def assert_nobody_skips(
    topology: Topology, clusters: Mapping[str, SandboxCluster], spark: SparkSession, folder: Path, seed: int
) -> None:
    """What happens is by a seed, which is printed: writes, which flows run, where groups stop."""
    print(f"MIRROR_LEDGER_SEED={seed}")
    made = clusters_of(topology, clusters, spark, folder, random.Random(seed))
    arrivals = list(arrived(made))
    for one in arrivals:
        assert_kept(topology, one)
    assert_something_happened(topology, arrivals)


# What happens ------------------------------------------------------------------------------------


def arrived(made: Clusters) -> Iterator[Arrival]:
    """All groups at the other side, after a life of the clusters in which some have moved before."""
    groups = list(groups_of(made))
    made.write()
    assert made.copy(made.topology.flows) > 0
    made.write()
    read_on(made, groups)
    made.copy(made.some_flows())
    made.write()
    move_away(made, [group for group in groups if group.habit in MOVED])
    read_on(made, [group for group in groups if group.habit is not Habit.RESTS])
    made.write()
    made.copy(made.some_flows())
    made.write()
    recorded, logs = made.record(), made.logs()
    for found in at_once(lambda group: list(go_over(made, recorded, logs, group)), groups):
        yield from found


def groups_of(made: Clusters) -> Iterator[Traveller]:
    """On each side of the first trip one of each habit, of the others the two that have most to tell."""
    for number, trip in enumerate(made.topology.trips):
        for side in (0, 1):
            for habit in (Habit.STAYS, Habit.RETURNS) if number else Habit:
                yield Traveller(f"{made.topic}-{number}-{trip[0][side].cluster}-{habit}", trip, side, habit)


def read_on(made: Clusters, groups: list[Traveller]) -> None:
    ends = {log: max(records, default=-1) + 1 for log, records in made.logs().items()}
    reading = [group for group in groups if group.habit is not Habit.IDLES]
    stops = {group.name: made.stops(group, ends) for group in reading}
    at_once(lambda group: made.read_on(group, stops[group.name]), reading)


def move_away(made: Clusters, groups: list[Traveller]) -> None:
    """By what the ledger answers; of moves that were recorded it is to know."""
    recorded, logs = made.record(), made.logs()
    places = {group.name: dict(placed_away(made, recorded, logs, group)) for group in groups}
    intended = {group.name: intention(made, recorded, group, places[group.name]) for group in groups}
    at_once(lambda group: made.move(group, places[group.name]), groups)
    made.record_moves(
        {group.name: intended[group.name] for group in groups if group.habit is not Habit.RETURNS_UNSEEN}
    )


def placed_away(
    made: Clusters, recorded: Recorded, logs: Mapping[Log, Records], group: Traveller
) -> Iterator[tuple[Log, Place]]:
    for (topic, _), here, there in made.ways_of(group):
        place = recorded.place(group, here, there)
        below = {offset: record for offset, record in logs[there].items() if offset < (place.offset or 0)}
        assert not set(wanted(made, topic, below).values()) - group.read, (group, there, place)
        yield there, place


def intention(
    made: Clusters, recorded: Recorded, group: Traveller, places: Mapping[Log, Place]
) -> OffsetsSet:
    """What `offsets set` would record of the group before it sets these offsets."""
    ways = [(here, there) for _, here, there in made.ways_of(group)]
    return OffsetsSet(
        group=group.name,
        source_cluster=ways[0][0].cluster,
        target_cluster=ways[0][1].cluster,
        cut=recorded.at.cut.token,
        commits=tuple(intended_commit(recorded, group, here, there, places[there]) for here, there in ways),
        seen=seen_at(recorded.at.cut, ways[0][1].cluster),
    )


def intended_commit(
    recorded: Recorded, group: Traveller, here: Log, there: Log, place: Place
) -> IntendedCommit:
    left = recorded.ledger.last_commit(group.name, here)
    assert place.offset is not None, (group, here, there)
    return IntendedCommit(
        topic=there.topic,
        topic_id=recorded.ledger.current(there).topic_id,
        partition=there.partition,
        former=None,
        to=place.offset,
        source_topic=here.topic,
        source_topic_id=recorded.ledger.current(here).topic_id,
        source_partition=here.partition,
        source_offset=None if left is None else left.offset,
        source_leader_epoch=None if left is None else left.leader_epoch,
        source_made_after_ms=None if left is None else left.made_after_ms,
        status=place.status,
    )


def go_over(
    made: Clusters,
    recorded: Recorded,
    logs: Mapping[Log, Records],
    group: Traveller,
) -> Iterator[Arrival]:
    ways = list(made.ways_of(group))
    places = {there: recorded.place(group, here, there) for _, here, there in ways}
    made.move(group, places)
    got = made.read_to_the_end(group)
    for (topic, _), here, there in ways:
        yield Arrival(
            group,
            here,
            there,
            places[there],
            frozenset(group.read),
            logs[here],
            logs[there],
            wanted(made, topic, logs[there]),
            logs[there] if there[:2] in group.been else wanted(made, topic, logs[there]),
            got[there],
        )


def wanted(made: Clusters, here: Topic, records: Records) -> Records:
    """Of what lies there those that are here, or are to come here."""
    return {
        offset: record
        for offset, record in records.items()
        if made.topology.arrives(written_to(record), here)
    }


# What has to hold --------------------------------------------------------------------------------


def assert_kept(topology: Topology, one: Arrival) -> None:
    assert one.place.offset is not None, one
    assert not one.skipped, one
    assert min(one.got, default=one.place.offset) >= one.place.offset, one
    promised = one.held(one.place.repeated)
    others = one.held(one.place.others)
    assert others <= one.of_others if topology.has_doubts else others == one.of_others, one
    assert not one.in_doubt or topology.has_doubts, one
    if one.group.habit is Habit.RETURNS_UNSEEN:
        assert promised <= one.read_again, one
        return
    assert one.held(one.place.unread) - one.in_doubt == one.unread, one
    assert promised == one.read_again, one
    if one.group.habit is Habit.RESTS:
        assert one.place.repeats == 0, one


def assert_something_happened(topology: Topology, arrivals: list[Arrival]) -> None:
    """Groups had read something and went on with something; not all of them where a side begins or ends."""
    assert sum(len(one.read) for one in arrivals) > 100
    assert sum(len(one.got) for one in arrivals) > 100
    amid = [one for one in arrivals if one.got and len(one.got) < len(one.lies_there)]
    assert len(amid) > len(arrivals) / 4
    if topology is FAN_IN:
        assert any(
            one.place.status is TranslationStatus.OTHERS and one.of_others & one.unread for one in arrivals
        )
