"""`KafkaAdmin` on real brokers."""

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import ACLOperation, ResourceType

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig, SecretReference
from ledger.errors import ClusterUnavailableError, PreconditionError, UsageError
from ledger.facts.groups import CommitRefusal, NewCommit
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import GroupListing, PartitionEnds
from ledger.sandbox import Sandbox, SandboxCluster
from ledger.topics.following import NewTopic
from tests.support.dead_addresses import NAME, resolving_to
from tests.support.guarded import SECRET, Guarded
from tests.support.trio import Trio
from tests.support.waiting import eventually

_opened: list[KafkaAdmin] = []


def admin_of(
    cluster: SandboxCluster, *, timeout_s: float = 9.0, **properties: str | SecretReference
) -> KafkaAdmin:
    config = ClusterConfig(
        name=cluster.alias,
        bootstrap_servers=cluster.bootstrap_servers,
        properties={name.replace("_", "."): value for name, value in properties.items()},
    )
    admin = KafkaAdmin(cluster.alias, config, SystemClock(), timeout_s=timeout_s)
    _opened.append(admin)
    return admin


@pytest.fixture(scope="module", autouse=True)
def clients_are_closed() -> Iterator[None]:
    """An open client keeps threads that look for its brokers for ever."""
    yield
    for admin in _opened:
        admin.close()


@pytest.fixture(scope="module")
def east(broker_pair: Mapping[str, SandboxCluster]) -> SandboxCluster:
    return broker_pair["east"]


@pytest.fixture(scope="module")
def admin(east: SandboxCluster) -> Iterator[KafkaAdmin]:
    admin = admin_of(east)
    yield admin
    admin.close()


@pytest.fixture
def topic(admin: KafkaAdmin) -> str:
    name = f"admin-{uuid.uuid4().hex[:8]}"
    admin.create_topic(name, partitions=2, replication_factor=1, configuration={"retention.ms": "-1"})
    return name


def commit(cluster: SandboxCluster, group: str, *offsets: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=list(offsets), asynchronous=False)
    consumer.close()


@pytest.mark.parametrize(
    ("replication_factor", "configuration", "reason"),
    [(1, {}, "already exists"), (9, {}, "replication factor of 9"), (1, {"no.such": "1"}, "no.such")],
)
def test_what_cannot_be_created_is_refused(
    admin: KafkaAdmin, topic: str, replication_factor: int, configuration: dict[str, str], reason: str
) -> None:
    name = topic if reason == "already exists" else f"{topic}-2"
    with pytest.raises(PreconditionError, match=f"refused to create topic {name}: .*{reason}.*not done"):
        admin.create_topic(
            name, partitions=1, replication_factor=replication_factor, configuration=configuration
        )


def test_several_topics_are_created_at_once_and_the_refused_left_out(admin: KafkaAdmin, topic: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    wanted = [NewTopic(name, 2, 1, {"retention.ms": "7"}) for name in (topic, *names)]
    wanted.append(NewTopic(f"{topic}-c", 1, 9, {}))
    created = admin.create_topics(wanted)
    assert created == {name: admin.topics()[name].topic_id for name in names}
    assert admin.configurations(names) == {name: {"retention.ms": "7"} for name in names}
    assert len(admin.ends([(name, partition) for name in names for partition in range(2)])) == 4
    assert admin.create_topics(wanted) == {}


def test_commits_of_a_group_without_members_are_set(
    admin: KafkaAdmin, east: SandboxCluster, topic: str
) -> None:
    group, listing = f"{topic}-set", GroupListing(f"{topic}-set", None, None)
    wanted = [NewCommit(topic, 0, 7, "note"), NewCommit(topic, 1, 0, None), NewCommit(topic, 9, 5, None)]
    for _ in ("a group that does not exist", "an empty one"):
        assert admin.set_commits(group, wanted) == {(topic, 9): CommitRefusal.NO_TOPIC}
        found = admin.commits([listing], topic_ids={})
        told = [(row.partition, row.committed_offset, row.metadata, row.leader_epoch) for row in found]
        assert told == [(0, 7, "note", None), (1, 0, "", None)]
    consumer = Consumer({"bootstrap.servers": east.bootstrap_servers, "group.id": group})
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), "partitions are assigned")
    assert set(admin.set_commits(group, wanted[:1]).values()) == {CommitRefusal.HAS_MEMBERS}
    assert admin.delete_commits(group, [(topic, 0)]) == {(topic, 0): CommitRefusal.HAS_MEMBERS}
    assert admin.delete_groups([group, f"{topic}-none"]) == {group: "NonEmptyGroupError"}
    consumer.close()
    assert admin.delete_groups([group]) == {}
    assert group not in {one.group_id for one in admin.groups()}


def test_groups_and_their_commits(admin: KafkaAdmin, east: SandboxCluster, topic: str) -> None:
    commit(east, f"{topic}-a", TopicPartition(topic, 0, 7, "note"), TopicPartition(topic, 1, 0))
    commit(east, f"{topic}-b", TopicPartition(topic, 1, 3))
    mine = [group for group in admin.groups() if group.group_id.startswith(topic)]
    assert mine == [GroupListing(f"{topic}-{end}", "classic", "Empty") for end in "ab"]
    gone = GroupListing("no-such-group", None, None)
    found = admin.commits([*mine, gone], topic_ids={topic: "the-id"})
    assert [(row.group_id, row.partition, row.committed_offset, row.metadata) for row in found] == [
        (f"{topic}-a", 0, 7, "note\x00"),  # the committing library ends metadata with a zero byte
        (f"{topic}-a", 1, 0, ""),
        (f"{topic}-b", 1, 3, ""),
    ]
    assert {(row.cluster, row.topic, row.topic_id) for row in found} == {("east", topic, "the-id")}
    assert {row.topic_id for row in admin.commits(mine, topic_ids={})} == {None}


def test_nothing_is_opened_before_the_first_call() -> None:
    KafkaAdmin("x", ClusterConfig(name="x", bootstrap_servers="nowhere.invalid:1"), SystemClock()).close()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("nowhere.invalid:1", "to describe all topics: nowhere.invalid:1 "),
    ],
)
def test_an_unreachable_cluster_is_named_with_the_reason(
    address: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    admin = KafkaAdmin("east", ClusterConfig(name="east", bootstrap_servers=address), SystemClock())
    with pytest.raises(ClusterUnavailableError, match=f"cluster east at {address} .*{reason}.*not done"):
        admin.topics()
    assert capfd.readouterr().err == ""


def test_an_address_that_is_dead_does_not_matter_beside_one_that_lives(east: SandboxCluster) -> None:
    config = ClusterConfig(name="east", bootstrap_servers=f"127.0.0.1:1,{east.bootstrap_servers}")
    admin = KafkaAdmin("east", config, SystemClock())
    assert admin.cluster_id() == east.cluster_id
    admin.close()


def test_a_name_leads_to_its_broker_though_its_first_address_never_answers(
    east: SandboxCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(east.bootstrap_servers.rpartition(":")[2])
    config = ClusterConfig(name="east", bootstrap_servers=f"{NAME}:{port}")
    with resolving_to(monkeypatch, port, silent=1):
        admin = KafkaAdmin("east", config, SystemClock(), timeout_s=5.0)
        assert admin.cluster_id() == east.cluster_id
        admin.close()


def test_a_paused_broker_meets_the_deadline_and_may_answer_late(
    broker_pair_sandbox: Sandbox, east: SandboxCluster
) -> None:
    admin = admin_of(east, timeout_s=1.0)
    admin.groups()
    broker_pair_sandbox.pause("east")
    try:
        for call in (admin.groups, admin.topics, admin.allocate_producer_id):
            started = time.monotonic()
            with pytest.raises(ClusterUnavailableError, match="could not be reached to"):
                call()
            assert time.monotonic() - started < 2.0
    finally:
        broker_pair_sandbox.resume("east")
    assert admin.cluster_id() == east.cluster_id
    admin.close()


def test_connections_survive_a_restart_of_the_broker(
    broker_pair_sandbox: Sandbox, east: SandboxCluster
) -> None:
    admin = admin_of(east)
    admin.topics()
    broker_pair_sandbox.stop("east")
    with pytest.raises(ClusterUnavailableError, match="Connection refused"):
        admin.topics()
    broker_pair_sandbox.start("east")
    assert admin.cluster_id() == east.cluster_id
    admin.close()


# Security --------------------------------------------------------------------------------------


def guest(guarded: Guarded, secret: str = SECRET) -> KafkaAdmin:
    """As a user that may do nothing."""
    login = {**guarded.plain_login("guest"), "sasl.password": SecretReference(env=secret)}
    config = ClusterConfig(name="solo", bootstrap_servers=guarded.without_tls, properties=login)
    environ = {SECRET: guarded.password, "WRONG": "no"}
    admin = KafkaAdmin("solo", config, SystemClock(), timeout_s=9.0, environ=environ)
    _opened.append(admin)
    return admin


def test_a_wrong_password_is_said_at_once(guarded: Guarded) -> None:
    started = time.monotonic()
    with pytest.raises(PreconditionError, match="cluster solo refused the login, needed to describe the"):
        guest(guarded, "WRONG").cluster_id()
    assert time.monotonic() - started < 5


def test_a_secret_that_is_not_there_is_said_before_connecting(guarded: Guarded) -> None:
    with pytest.raises(UsageError, match="MISSING, which is not set; no client was built"):
        guest(guarded, "MISSING").topics()


def test_what_is_not_allowed_names_operation_and_topic(guarded: Guarded) -> None:
    admin, hidden = guest(guarded), f"hidden-{uuid.uuid4().hex[:8]}"
    assert admin.cluster_id() == guarded.cluster.cluster_id
    with closing(
        KafkaAdmin("solo", ClusterConfig(name="solo", bootstrap_servers=guarded.open), SystemClock())
    ) as root:
        root.create_topic(hidden, partitions=1, replication_factor=1, configuration={})
        eventually(lambda: hidden in root.topics(), "it is there")
    assert hidden not in admin.topics()
    with pytest.raises(
        PreconditionError, match=r"does not allow this principal to create topic mine: .*not done"
    ):
        admin.create_topic("mine", partitions=1, replication_factor=1, configuration={})
    with pytest.raises(PreconditionError, match=r"does not allow .* list offsets of topic mine: .*not done"):
        admin.ends([("mine", 0)])
    with pytest.raises(PreconditionError, match=r"does not allow .* read the committed offsets of group g: "):
        admin.commits([GroupListing("g", None, None)], topic_ids={})
    with guarded.writing_nowhere("guest"):
        eventually(
            lambda: "does not allow this principal to allocate a producer id: " in why_no_producer_id(admin),
            "who may write to some topic gets one",
        )


def why_no_producer_id(admin: KafkaAdmin) -> str:
    """Empty where there is one."""
    try:
        admin.allocate_producer_id()
    except PreconditionError as error:
        return str(error)
    return ""


def test_commits_need_permissions_on_group_and_topic(guarded: Guarded) -> None:
    user, name = guarded.new_user(), f"set-{uuid.uuid4().hex[:8]}"
    root = KafkaAdmin("solo", ClusterConfig(name="solo", bootstrap_servers=guarded.open), SystemClock())
    root.create_topic(name, partitions=1, replication_factor=1, configuration={})
    root.close()
    login = guarded.scram_login(user)
    config = ClusterConfig(name="solo", bootstrap_servers=guarded.over_tls, properties=login)
    admin = KafkaAdmin("solo", config, SystemClock(), environ={SECRET: guarded.password})
    _opened.append(admin)
    commits = [NewCommit(name, 0, 7, None)]
    assert admin.set_commits(name, commits) == {(name, 0): CommitRefusal.GROUP_DENIED}
    guarded.allow(user, name, ACLOperation.READ, kind=ResourceType.GROUP)
    refused = {(name, 0): CommitRefusal.TOPIC_DENIED}
    eventually(lambda: admin.set_commits(name, commits) == refused, "READ on the group is not enough")
    guarded.allow(user, name, ACLOperation.READ)
    eventually(lambda: admin.set_commits(name, commits) == {}, "READ on both is enough")


# Several brokers -------------------------------------------------------------------------------


def test_a_dead_broker_takes_only_its_partitions_away(trio: Trio) -> None:
    admin = admin_of(trio.sandbox.status()["trio"])
    topic = f"spread-{uuid.uuid4().hex[:8]}"
    admin.create_topic(topic, partitions=6, replication_factor=1, configuration={})
    partitions = [(topic, partition) for partition in range(6)]
    eventually(lambda: len(ends_if_reachable(admin, partitions)) == 6, "every partition has its leader")
    known = AdminClient({"bootstrap.servers": trio.sandbox.status()["trio"].bootstrap_servers}).list_topics(
        topic
    )
    others = {(topic, one.id) for one in known.topics[topic].partitions.values() if one.leader != 2}
    assert 0 < len(others) < 6
    trio.kill(2)
    eventually(
        lambda: set(ends_if_reachable(admin, partitions)) == others, "its partitions are told to be gone"
    )
    assert admin.broker_count() == 2
    assert not [group for group in admin.groups() if topic in group.group_id], "those that are there are told"
    assert admin.topics()[topic].partitions == 6
    admin.close()


def ends_if_reachable(
    admin: KafkaAdmin, partitions: list[tuple[str, int]]
) -> dict[tuple[str, int], PartitionEnds]:
    """Empty while the cluster still believes in the dead broker."""
    try:
        return admin.ends(partitions)
    except ClusterUnavailableError:
        return {}
