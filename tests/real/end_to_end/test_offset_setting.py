"""Groups move by `offsets set`, and go on at the first unread record."""

import itertools
import json
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import ClusterConfig
from ledger.facts.groups import NewCommit
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import GroupListing, TopicDescription
from ledger.recorders.observation import Subject
from ledger.sandbox import SandboxCluster
from ledger.sandbox.groups import GroupPlan, consume, resume
from ledger.sandbox.reading import Readings, read_topics, reader_properties
from ledger.sandbox.resumption import compare
from ledger.sandbox.workload import create_topics
from ledger.store import answers, sql
from tests.support.clusters import servers_of
from tests.support.commands import Done, command
from tests.support.config_files import write_config
from tests.support.following import admin_of
from tests.support.group_members import share_consumer, streams_member
from tests.support.runs import FLOW, run
from tests.support.shops import beside, send, small_source
from tests.support.waiting import eventually

RECORDS = 60
TRIMMED_TO = 7
"""The source begins here, the target at 0: no offset is the same on both sides."""
BY_ALL_FLOWS = ("--from", "east", "--to", "west")
BY_CONSUMER_PROTOCOL, OF_STREAMS, SHARING = "by-consumer-protocol", "of-streams", "sharing"
ASSIGNED = "assigned"
SET, NEXT_GENERATION, NEWCOMER = "set", "next-generation", "newcomer"


@dataclass(frozen=True)
class Moving:
    """A mirrored topic of three partitions, the last one empty; groups that had read a part of it at the source."""

    topic: str
    servers: Mapping[str, str]
    config: MirrorConfig
    survivors: Readings
    read: Mapping[str, Readings]

    def group(self, name: str) -> str:
        return f"{self.topic}-{name}"

    def offsets_at_target(self, group: str) -> dict[int, tuple[int, str]]:
        """By partition what the group has committed, with its metadata."""
        with admin_of(self.config, "west") as admin:
            commits = admin.commits([GroupListing(self.group(group), None, None)], topic_ids={})
        return {one.partition: (one.committed_offset or 0, one.metadata or "") for one in commits}

    def moves(self, operation_id: str) -> list[tuple[object, ...]]:
        """Of each partition, in order: what the group left, and where it arrived, as the ledger has it."""
        at = answers.snapshot(self.config, None)
        known = {cluster: topics_of(self.config, cluster) for cluster in ("east", "west")}
        with sql.connect(at, {}, ("group_moves",)) as connection:
            moves = connection.sql(
                "select * from group_moves where operation_id = $id order by from_partition",
                params={"id": operation_id},
            ).to_arrow_table()
        for move in moves.to_pylist():
            assert move["from_partition"] == move["to_partition"]
            assert move["from_topic_id"] == known["east"][move["from_topic"]].topic_id
            assert move["to_topic_id"] == known["west"][move["to_topic"]].topic_id
        named = ("from_cluster", "from_topic", "left_offset", "to_cluster", "to_topic", "arrived_offset")
        return [tuple(move[name] for name in named) for move in moves.to_pylist()]

    def unread(self, group: str, resumed: Readings) -> list[str]:
        """What is not exact about where the group went on."""
        back = {(self.topic, partition): records for (_, partition), records in resumed.items()}
        found = compare(self.group(group), self.survivors, dict(self.read[group]), back)
        return [str(one) for one in found if not one.is_exact]


@pytest.fixture(scope="module")
def moving(
    broker_pair: Mapping[str, SandboxCluster], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Moving:
    topic, servers = f"moving-{uuid.uuid4().hex[:6]}", servers_of(broker_pair)
    create_topics(servers["east"], [topic], partitions=3)
    source = small_source(topic)
    for partition in range(2):
        send(servers["east"], topic, partition, source, RECORDS)
    trim(servers["east"], topic)
    read = {}
    for name, stops in (
        (SET, (20, 40)),
        (NEXT_GENERATION, (12, 50)),
        (NEWCOMER, (30, 0)),
    ):
        plan = {(topic, partition): stop for partition, stop in enumerate(stops)}
        read[name] = consume(servers["east"], GroupPlan(f"{topic}-{name}", {**plan, (topic, 2): 0}))
    commit_at_source(servers["east"], topic)
    config = write_config(
        tmp_path_factory.mktemp("moving"), servers, {FLOW: f"""round_seconds = 1.0\ntopics = ["{topic}"]"""}
    )
    init_ledger(config)
    run(config, spark, recorded=frozenset(Subject))
    return Moving(topic, servers, config, read_topics(servers["east"], [topic]), read)


def read_at_source(topic: str) -> list[NewCommit]:
    """How far groups of other types have come."""
    return [NewCommit(topic, partition, offset, None) for partition, offset in enumerate((20, 40, 0))]


def commit_at_source(servers: str, topic: str) -> None:
    admin = KafkaAdmin("east", ClusterConfig(name="east", bootstrap_servers=servers), SystemClock())
    places = read_at_source(topic)
    for name in (BY_CONSUMER_PROTOCOL, OF_STREAMS, ASSIGNED):
        assert admin.set_commits(f"{topic}-{name}", places) == {}
    admin.close()


def topics_of(config: MirrorConfig, alias: str) -> Mapping[str, TopicDescription]:
    with admin_of(config, alias) as admin:
        return admin.topics()


def trim(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    wanted = [TopicPartition(topic, partition, TRIMMED_TO) for partition in range(2)]
    for trimming in admin.delete_records(wanted).values():
        trimming.result(30)


@pytest.fixture
def offsets_set(moving: Moving, capfd: pytest.CaptureFixture[str]) -> "Setter":
    return Setter(moving, capfd)


@dataclass(frozen=True)
class Setter:
    moving: Moving
    capture: pytest.CaptureFixture[str]

    def __call__(self, group: str, *arguments: str, asked: Sequence[str] = ("--flow", FLOW)) -> Done:
        of_group = (*asked, "--group", self.moving.group(group), "-o", "json")
        return command(self.capture, self.moving.config, "offsets", "set", *of_group, *arguments)

    def results(
        self, group: str, *arguments: str, code: int = 0, asked: Sequence[str] = ("--flow", FLOW)
    ) -> dict[int, tuple[int | None, int, str]]:
        """By partition what was there, what is to be there, and what became of it."""
        done = self(group, *arguments, asked=asked)
        assert done.code == code, done.err
        return {
            row["target_partition"]: (row["former_offset"], row["target_offset"], row["result"])
            for row in json.loads(done.out)
        }


def test_a_group_goes_on_at_the_first_unread_record(moving: Moving, offsets_set: Setter) -> None:
    wanted = {0: 20 - TRIMMED_TO, 1: 40 - TRIMMED_TO, 2: 0}
    dry = offsets_set.results(SET, "--dry-run")
    assert dry == {partition: (None, offset, "to_be_set") for partition, offset in wanted.items()}
    assert moving.offsets_at_target(SET) == {}
    done = offsets_set.results(SET, "--reason", "failover", "--ticket", "OPS-1")
    assert done == {partition: (None, offset, "set") for partition, offset in wanted.items()}
    assert {part: offset for part, (offset, _) in moving.offsets_at_target(SET).items()} == wanted
    again = offsets_set.results(SET)
    assert again == {partition: (offset, offset, "already_set") for partition, offset in wanted.items()}
    assert offsets_set.results(SET, asked=BY_ALL_FLOWS) == again
    rows = answers.snapshot(moving.config, None).rows("operations", [("ticket", "=", "OPS-1")])
    assert [row["kind"] for row in rows] == ["offsets_set", "offsets_set_result"]
    assert len({row["operation_id"] for row in rows}) == 1
    assert moving.moves(rows[0]["operation_id"]) == [
        ("east", moving.topic, 20, "west", f"east.{moving.topic}", wanted[0]),
        ("east", moving.topic, 40, "west", f"east.{moving.topic}", wanted[1]),
        ("east", moving.topic, None, "west", f"east.{moving.topic}", wanted[2]),
    ]
    at_target = [(f"east.{moving.topic}", partition) for partition in range(3)]
    assert moving.unread(SET, resume(moving.servers["west"], moving.group(SET), at_target)) == []
    newer = offsets_set.results(SET, code=4)
    assert newer[0] == (RECORDS - TRIMMED_TO, wanted[0], "newer")
    taken_back = offsets_set.results(SET, "--accept=newer", "--partition", "0", "--topic", moving.topic)
    assert taken_back == {0: (RECORDS - TRIMMED_TO, wanted[0], "set")}


def test_what_is_committed_keeps_its_metadata(moving: Moving, offsets_set: Setter) -> None:
    with admin_of(moving.config, "east") as source:
        [committed, *_] = source.commits([GroupListing(moving.group(SET), None, None)], topic_ids={})
    offsets_set(SET, "--accept=newer")
    assert moving.offsets_at_target(SET)[0][1] == committed.metadata


@contextmanager
def member(servers: str, group: str, topic: str, **properties: str) -> Iterator[Consumer]:
    """A consumer of the group that has got its partitions."""
    consumer = Consumer({**reader_properties(servers, group), **properties})
    try:
        consumer.subscribe([topic])
        eventually(
            lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()), "partitions are assigned"
        )
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_left_alone_and_set_when_they_are_gone(
    moving: Moving, offsets_set: Setter, protocol: str
) -> None:
    group = moving.group(NEXT_GENERATION)
    with member(moving.servers["west"], group, f"east.{moving.topic}", **{"group.protocol": protocol}):
        assert {result for *_, result in offsets_set.results(NEXT_GENERATION, code=5).values()} == {
            "has_members"
        }
    done = offsets_set.results(NEXT_GENERATION, "--accept=newer")
    assert {offset for _, offset, _ in done.values()} == {12 - TRIMMED_TO, 50 - TRIMMED_TO, 0}
    assert {result for *_, result in done.values()} <= {"set", "already_set"}


def test_a_partition_without_a_commit_is_left_out_unless_accepted(
    moving: Moving, offsets_set: Setter
) -> None:
    found = offsets_set.results(NEWCOMER, "--dry-run", code=4)
    assert {partition: result for partition, (*_, result) in found.items()} == {
        0: "to_be_set",
        1: "not_accepted",
        2: "to_be_set",
    }
    assert offsets_set.results(NEWCOMER, "--dry-run", asked=BY_ALL_FLOWS, code=4) == found
    done = offsets_set.results(NEWCOMER, "--accept", "no_commit", asked=BY_ALL_FLOWS)
    assert done[1] == (None, 0, "set")
    again = offsets_set.results(NEWCOMER, "--accept", "no_commit", asked=BY_ALL_FLOWS)
    assert {result for *_, result in again.values()} == {"already_set"}


@contextmanager
def assigned(servers: str, group: str, topic: str) -> Iterator[None]:
    """A consumer that assigns itself a partition, and commits a few times a second what lies below all answers."""

    def commit(ended: threading.Event) -> None:
        consumer = Consumer(reader_properties(servers, group))
        consumer.assign([TopicPartition(topic, 0)])
        for offset in itertools.cycle(range(8, 13)):
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
            if ended.wait(0.1):
                break
        consumer.close()

    with beside(commit):
        yield


@contextmanager
def put_back(servers: str, group: str, topic: str) -> Iterator[None]:
    """What was committed for partition 0 is again behind the body, as the ledger has it."""
    consumer = Consumer(reader_properties(servers, group))
    try:
        stood = consumer.committed([TopicPartition(topic, 0)], 30)
        yield
        consumer.commit(offsets=stood, asynchronous=False)
    finally:
        consumer.close()


def test_consumers_that_are_no_members_are_found_where_they_leave_and_where_they_were_set(
    moving: Moving, offsets_set: Setter
) -> None:
    group, watch = moving.group(ASSIGNED), ("--watch", "0.5")
    east = moving.servers["east"]
    with put_back(east, group, moving.topic):
        with assigned(east, group, moving.topic):
            found = offsets_set.results(ASSIGNED, *watch, asked=BY_ALL_FLOWS, code=5)
        assert {result for *_, result in found.values()} == {"still_reading"}
        found = offsets_set.results(ASSIGNED, *watch, asked=BY_ALL_FLOWS, code=5)
        assert {result for *_, result in found.values()} == {"still_reading"}, (
            "it stands elsewhere than is known"
        )
    assert moving.offsets_at_target(ASSIGNED) == {}
    with assigned(moving.servers["west"], group, f"east.{moving.topic}"):
        eventually(lambda: moving.offsets_at_target(ASSIGNED) != {}, "it is at work")
        found = offsets_set.results(ASSIGNED, *watch, asked=BY_ALL_FLOWS, code=4)
    assert found[0][2] in ("moved_by_others", "not_kept")
    assert {found[partition][2] for partition in (1, 2)} == {"set"}
    done = offsets_set.results(ASSIGNED, *watch, asked=BY_ALL_FLOWS)
    assert [result for *_, result in done.values()] == ["set", "already_set", "already_set"]


def test_groups_of_every_type_continue_where_they_stood(moving: Moving, offsets_set: Setter) -> None:
    west, topic = moving.servers["west"], f"east.{moving.topic}"
    with admin_of(moving.config, "east") as source:
        assert source.set_share_offsets(moving.group(SHARING), read_at_source(moving.topic)) == {}
    recorded = command(offsets_set.capture, moving.config, "record", "east", "--once")
    assert recorded.code == 0, recorded.err
    by_protocol, of_streams = moving.group(BY_CONSUMER_PROTOCOL), moving.group(OF_STREAMS)
    with (
        member(west, by_protocol, topic, **{"group.protocol": "consumer"}),
        streams_member(west, of_streams, topic),
    ):
        pass  # so that the target has a group of that type, without members
    every = ("--group", of_streams, "--group", moving.group(SHARING))
    done = offsets_set(BY_CONSUMER_PROTOCOL, *every, "--reason", "failover", asked=BY_ALL_FLOWS)
    assert done.code == 0, done.err
    rows = json.loads(done.out)
    wanted = [20 - TRIMMED_TO, 40 - TRIMMED_TO, 0]
    assert {(row["group_id"], row["target_partition"]): row["target_offset"] for row in rows} == {
        (moving.group(name), partition): offset
        for name in (BY_CONSUMER_PROTOCOL, OF_STREAMS, SHARING)
        for partition, offset in enumerate(wanted)
    }
    assert {(row["group_type"], row["result"]) for row in rows} == {(None, "set"), ("share", "set")}
    for name in (BY_CONSUMER_PROTOCOL, OF_STREAMS):
        assert [offset for _, (offset, _) in sorted(moving.offsets_at_target(name).items())] == wanted
    again = offsets_set(BY_CONSUMER_PROTOCOL, *every, asked=BY_ALL_FLOWS)
    assert {row["result"] for row in json.loads(again.out)} == {"already_set"}
    unread = {
        (partition, at) for partition in (0, 1) for at in range(wanted[partition], RECORDS - TRIMMED_TO)
    }
    got: set[tuple[int | None, int | None]] = set()
    with share_consumer(west, moving.group(SHARING), topic) as client:

        def reads_all() -> bool:
            nonlocal got
            got |= {(one.partition(), one.offset()) for one in client.poll(0.2)}
            return got >= unread

        eventually(reads_all, "what was unread is delivered")
        active = offsets_set.results(SHARING, "--accept=newer", asked=BY_ALL_FLOWS, code=5)
    assert {result for *_, result in active.values()} == {"has_members"}
    assert got == unread
