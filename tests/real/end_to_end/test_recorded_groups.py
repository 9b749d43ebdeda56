"""Groups of every type on real brokers, in the ledger: with what they have committed, and with what nobody knows."""

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import ACLOperation, ResourceType

from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.facts.groups import NewCommit
from ledger.kafka.admin import KafkaAdmin
from ledger.recorders.run import record_clusters
from ledger.sandbox import SandboxCluster
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.group_members import share_consumer, streams_member
from tests.support.guarded import Guarded, lines_of
from tests.support.recorded import Row, query, rows
from tests.support.waiting import eventually

CONTROL = "".join(map(chr, range(32))) + "\x7f\x85\u202e"
METADATA = ("", "note", "\x00", CONTROL, "größe 量 🦆 \U0010fffd", "'; drop table x; --\"", "m" * 4096)


class Recorded:
    """A topic of `east` and groups of this test alone, recorded when it is asked for."""

    def __init__(self, pair: Mapping[str, SandboxCluster], folder: Path) -> None:
        self.name = f"groups-{uuid.uuid4().hex[:8]}"
        self.servers = pair["east"].bootstrap_servers
        self.config = write_config(
            folder, servers_of(pair), {"f": f'topics = ["{self.name}"]\ngroups = ["{self.name}-.*"]'}
        )
        self.admin = KafkaAdmin("east", self.config.cluster("east"), SystemClock())
        init_ledger(self.config)
        self.admin.create_topic(self.name, partitions=2, replication_factor=1, configuration={})

    def group(self, name: str) -> str:
        return f"{self.name}-{name}"

    def record(self) -> None:
        record_clusters(self.config, ["east"], stop=threading.Event(), once=True)

    def groups(self) -> dict[str, Row]:
        """Answers of `cluster_groups` by the names that the test gave; that about the cluster is `*`."""
        found = query(self.config, "cluster_groups", cluster="east")
        return {(row["group_id"] or "*").removeprefix(f"{self.name}-"): row for row in found}

    def last(self, table: str, group: str) -> dict[int, Row]:
        """The last rows of a group by partition."""
        return {
            row["partition"]: row for row in rows(self.config, table) if row["group_id"] == self.group(group)
        }

    def commit(self, group: str, *offsets: int) -> None:
        wanted = [NewCommit(self.name, partition, offset, None) for partition, offset in enumerate(offsets)]
        assert self.admin.set_commits(self.group(group), wanted) == {}

    @contextmanager
    def consumer(self, group: str, **settings: str) -> Iterator[Consumer]:
        """A member with partitions."""
        client = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": self.group(group),
                "enable.auto.commit": False,
                "log_level": 0,
                **settings,
            }
        )
        with closing(client):
            client.subscribe([self.name])
            eventually(lambda: client.poll(0.1) is None and bool(client.assignment()), "partitions")
            yield client

    def share_consumer(self, group: str) -> AbstractContextManager[ShareConsumer]:
        return share_consumer(self.servers, self.group(group), self.name)


@pytest.fixture
def east(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[Recorded]:
    made = Recorded(broker_pair, tmp_path)
    yield made
    made.admin.close()


def seen(groups: Mapping[str, Row]) -> dict[str, tuple[object, ...]]:
    names = ("group_type", "protocol_type", "has_members", "commits", "status")
    return {name: tuple(row[column] for column in names) for name, row in groups.items()}


def test_every_type_is_recorded_with_members_without_and_deleted(east: Recorded) -> None:
    for group in ("classic", "consumer", "streams"):
        east.commit(group, 3, 0)
    members = (
        east.consumer("classic"),
        east.consumer("consumer", **{"group.protocol": "consumer"}),
        east.consumer("new", **{"group.protocol": "consumer"}),
        streams_member(east.servers, east.group("streams"), east.name),
        east.share_consumer("share"),
    )
    with members[0], members[1], members[2], members[3], members[4] as sharing:
        eventually(lambda: sharing.poll(0.1) is not None and len(east.admin.groups()) >= 5, "all are listed")
        east.record()
        assert seen(east.groups()) == {
            "classic": ("classic", "consumer", True, 2, "committed"),
            "consumer": ("consumer", "consumer", True, 2, "committed"),
            "new": ("consumer", "consumer", True, 0, "no_commits"),
            "streams": ("streams", "streams", True, 2, "committed"),
            "share": ("share", "share", True, 0, "share_group"),
        }
    east.record()
    without_members = {name: row["has_members"] for name, row in east.groups().items()}
    assert set(without_members) == {"classic", "consumer", "new", "streams", "share"}
    assert set(without_members.values()) == {False}
    deleted = [east.group(name) for name in ("classic", "consumer", "streams")]
    client = AdminClient({"bootstrap.servers": east.servers})
    for done in client.delete_consumer_groups(deleted).values():
        done.result(30)
    east.record()
    statuses = {name: row["status"] for name, row in east.groups().items()}
    # Each ten minutes a broker removes groups of this type that have neither members nor commits.
    assert statuses.pop("new") in ("no_commits", "gone")
    assert statuses == {
        **dict.fromkeys(("classic", "consumer", "streams"), "gone"),
        "share": "share_group",
    }
    assert {row["absence"] for row in east.last("checkpoints", "consumer").values()} == {"gone"}


def test_share_groups_have_start_offsets_and_no_commits(east: Recorded) -> None:
    producer = Producer({"bootstrap.servers": east.servers})
    for _ in range(10):
        producer.produce(east.name, b"value", partition=0)
    assert producer.flush(10) == 0
    read = 0
    with east.share_consumer("share") as client:

        def reads_all() -> bool:
            nonlocal read
            read += len(list(client.poll(0.2)))
            return read >= 10

        eventually(reads_all, "ten records")
        client.poll(0.2)  # acknowledges what was read

        def lag() -> object:
            east.record()
            return east.last("share_offsets", "share")[0]["lag"]

        eventually(lambda: lag() == 0, "all are acknowledged")
    first, second = (east.last("share_offsets", "share")[partition] for partition in (0, 1))
    topic_id = east.admin.topics()[east.name].topic_id
    assert (first["topic"], first["topic_id"], first["absence"]) == (east.name, topic_id, None)
    assert 0 <= first["start_offset"] <= 10
    assert second["start_offset"] in (0, None)
    assert east.last("checkpoints", "share") == {}
    assert east.groups()["share"]["share_partitions"] == 2
    assert east.groups()["share"]["status"] == "share_group"


@pytest.mark.parametrize("is_committed", [True, False])
def test_of_an_open_transaction_the_last_stable_commit_is_recorded_and_that_one_is_pending(
    east: Recorded, is_committed: bool
) -> None:
    east.commit("exactly-once", 4)
    producer = Producer({"bootstrap.servers": east.servers, "transactional.id": east.name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    offsets = [TopicPartition(east.name, 0, 6), TopicPartition(east.name, 1, 1)]
    client = Consumer({"bootstrap.servers": east.servers, "group.id": east.group("exactly-once")})
    with closing(client):
        producer.send_offsets_to_transaction(offsets, client.consumer_group_metadata(), 30)

    def recorded() -> dict[int, tuple[object, object]]:
        east.record()
        found = east.last("checkpoints", "exactly-once")
        return {key: (row["committed_offset"], row["transaction_pending"]) for key, row in found.items()}

    assert recorded() == {0: (4, True)}, "a first commit that is pending is not reported"
    assert east.groups()["exactly-once"]["pending_commits"] == 1
    if is_committed:
        producer.commit_transaction(30)
        eventually(lambda: recorded() == {0: (6, False), 1: (1, False)}, "both are stable")
    else:
        producer.abort_transaction(30)
        eventually(lambda: recorded() == {0: (4, False)}, "nothing is pending")
    assert east.groups()["exactly-once"]["pending_commits"] == 0


def test_metadata_is_recorded_as_it_was_committed(east: Recorded) -> None:
    for number, metadata in enumerate(METADATA):
        wanted = [NewCommit(east.name, 0, 1, metadata)]
        assert east.admin.set_commits(east.group(str(number)), wanted) == {}
    east.record()
    found = {row["group_id"]: row["metadata"] for row in rows(east.config, "checkpoints")}
    assert found == {east.group(str(number)): metadata for number, metadata in enumerate(METADATA)}


def guarded_config(guarded: Guarded, folder: Path, user: str, groups: str) -> MirrorConfig:
    login = lines_of(guarded.scram_login(user))
    servers = {"east": guarded.over_tls, "west": guarded.open}
    flow = {"f": f'topics = ["{groups}"]\ngroups = ["{groups}-.*"]'}
    return write_config(folder, servers, flow, properties={"east": login})


def test_groups_that_the_principal_may_not_read_are_hidden_and_keep_no_other_from_being_read(
    guarded: Guarded, tmp_path: Path
) -> None:
    user, name = guarded.new_user(), f"groups-{uuid.uuid4().hex[:8]}"
    config = guarded_config(guarded, tmp_path, user, name)
    init_ledger(config)
    with closing(KafkaAdmin("west", config.cluster("west"), SystemClock())) as admin:
        admin.create_topic(name, partitions=1, replication_factor=1, configuration={})
        for group in ("shown", "denied"):
            assert admin.set_commits(f"{name}-{group}", [NewCommit(name, 0, 5, None)]) == {}
    guarded.allow(user, name, ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS)
    guarded.allow(user, f"{name}-shown", ACLOperation.DESCRIBE, kind=ResourceType.GROUP)

    def statuses() -> dict[str | None, object]:
        record_clusters(config, ["east"], stop=threading.Event(), once=True)
        return {row["group_id"]: row["status"] for row in query(config, "cluster_groups", cluster="east")}

    shown, denied = f"{name}-shown", f"{name}-denied"
    eventually(lambda: statuses() == {None: "permitted_listed", shown: "committed"}, "one is shown")
    guarded.allow(user, "kafka-cluster", ACLOperation.DESCRIBE, kind=ResourceType.CLUSTER)
    eventually(lambda: statuses() == {shown: "committed", denied: "hidden"}, "both are listed, one is read")
    (reason,) = {row["reason"] for row in rows(config, "groups") if row["group_id"] == denied}
    assert reason == "GROUP_AUTHORIZATION_FAILED"
    assert {row["group_id"] for row in rows(config, "checkpoints")} == {shown}
    guarded.allow(user, denied, ACLOperation.DESCRIBE, kind=ResourceType.GROUP)
    eventually(lambda: statuses() == {shown: "committed", denied: "committed"}, "both are read")
