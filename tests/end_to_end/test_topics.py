"""Target topics follow on real brokers and real Spark: names, settings, refusals, deletion."""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ledger import app
from ledger.adapters.delta.reading import open_ledger
from ledger.adapters.delta.state import DeltaLedgerState
from ledger.adapters.kafka.admin import KafkaAdmin
from ledger.adapters.system import SystemClock
from ledger.config import MirrorConfig, load_config
from ledger.domain.topic_acls import AclPattern, AclPermission, TopicAcl
from ledger.errors import PreconditionError
from ledger.mirror.run_summary import RunSummary
from ledger.sandbox import ListenerSecurity, Sandbox, SandboxCluster
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics

SEEN_WITHIN_S = 90.0  # an upper bound, for machines that are busy

Pair = Mapping[str, SandboxCluster]
RENAME = """topic_naming = "rename"\nrename = [{ match = '(.*)_REPLICA', to = '\\1' }]\n"""


def name_of(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:6]}"


def config_of(folder: Path, pair: Pair, flows: Mapping[str, str], west: str = "") -> MirrorConfig:
    """Flows by name; the text of each says where it goes from `east`, unless it has a source."""
    tables = "\n".join(
        f"[flows.{name}]\nround_seconds = 0.5\ntopic_refresh_seconds = 0.5\n{text}"
        for name, text in flows.items()
    )
    file = folder / "mirror-ledger.toml"
    file.write_text(
        f"""
        [ledger]
        path = "{folder / "ledger"}"
        [clusters.east]
        bootstrap_servers = "{pair["east"].bootstrap_servers}"
        [clusters.west]
        bootstrap_servers = "{pair["west"].bootstrap_servers}"
        {west}
        {tables}
        """
    )
    return load_config(file)


def east_to_west(topics: str, *more: str) -> str:
    return "\n".join(('source = "east"', 'target = "west"', f'topics = ["{topics}"]', *more))


def run(
    config: MirrorConfig, spark: SparkSession, flow: str = "f", *, allow_scope_reduction: bool = False
) -> RunSummary:
    return app.run_flow(
        config,
        flow,
        session=lambda: spark,
        until_caught_up=True,
        allow_scope_reduction=allow_scope_reduction,
        stop=threading.Event(),
        on_round=lambda _so_far: None,
    )


@contextmanager
def running(config: MirrorConfig, spark: SparkSession) -> Iterator[None]:
    """The flow `f`, which goes on until the block is left."""
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        going = pool.submit(
            app.run_flow,
            config,
            "f",
            session=lambda: spark,
            until_caught_up=False,
            stop=stop,
            on_round=lambda _so_far: None,
        )
        try:
            yield
        finally:
            stop.set()
        going.result(60)


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + SEEN_WITHIN_S
    while not holds():
        if time.monotonic() > deadline_s:
            pytest.fail(f"not within {SEEN_WITHIN_S:.0f} s: {what}")
        time.sleep(0.2)


@contextmanager
def admin_of(config: MirrorConfig, alias: str) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(alias, config.cluster(alias), SystemClock())
    try:
        yield admin
    finally:
        admin.close()


def produce(servers: str, topic: str, *values: str, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(30) == 0


def values(servers: str, topic: str) -> list[bytes | None]:
    return [placed.record.value for records in read_topics(servers, [topic]).values() for placed in records]


def consumed(servers: str, topic: str, group: str) -> list[bytes | None]:
    """What the group reads, to its end, and commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    try:
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append(message.value())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def operations(config: MirrorConfig, kind: str) -> list[dict[str, object]]:
    table = DeltaTable(f"{config.ledger.path}/operations").to_pyarrow_table().to_pylist()
    rows = sorted(table, key=lambda row: row["recorded_at_ms"])
    return [json.loads(row["content"]) for row in rows if row["kind"] == kind]


def open_findings(config: MirrorConfig, flow: str = "f") -> set[tuple[str, str | None]]:
    found = DeltaLedgerState(open_ledger(config.ledger.path)).open_findings(flow)
    return {(name, topic) for name, topic, _ in found}


# Names -----------------------------------------------------------------------------------------


def test_a_topic_is_renamed_within_a_cluster_and_into_another_at_once(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    """Both flows write into one target topic; each copies its own source only."""
    servers = {alias: cluster.bootstrap_servers for alias, cluster in broker_pair.items()}
    topic = name_of("orders")
    for alias in ("east", "west"):
        create_topics(servers[alias], [f"{topic}_REPLICA"], partitions=1)
        produce(servers[alias], f"{topic}_REPLICA", f"{alias} 1", f"{alias} 2")
    shared = f'topics = ["{topic}.*"]\ntarget_mode = "shared"\n{RENAME}'
    ways = {
        "across": ("east", "west"),
        "within": ("west", "west"),
        "home-across": ("west", "east"),
        "home-within": ("east", "east"),
    }
    flows = {
        name: f'source = "{source}"\ntarget = "{target}"\n{shared}' for name, (source, target) in ways.items()
    }
    config = config_of(tmp_path, broker_pair, flows)
    app.init_ledger(config)
    for _ in range(2):
        assert [run(config, spark, flow).records for flow in ("across", "within")] in ([2, 2], [0, 0])
    assert values(servers["west"], topic) == [b"east 1", b"east 2", b"west 1", b"west 2"]
    produce(servers["west"], f"{topic}_REPLICA", "west 3")
    produce(servers["east"], f"{topic}_REPLICA", "east 3")
    assert [run(config, spark, flow).records for flow in ("within", "across")] == [1, 1]
    assert values(servers["west"], topic)[4:] == [b"west 3", b"east 3"]
    _check_groups_that_run_on_both_sides(config, spark, servers, topic)


def _check_groups_that_run_on_both_sides(
    config: MirrorConfig, spark: SparkSession, servers: Mapping[str, str], topic: str
) -> None:
    """On the published topics each record is processed in one place, on the merged ones once in each cluster."""
    for flow in ("home-across", "home-within"):
        assert run(config, spark, flow).records == 3
    everything = sorted(f"{side} {n}".encode() for side in ("east", "west") for n in (1, 2, 3))
    published = [consumed(servers[side], f"{topic}_REPLICA", f"{topic}-once") for side in ("east", "west")]
    assert sorted(published[0] + published[1]) == everything
    for side in ("east", "west"):
        assert sorted(consumed(servers[side], topic, f"{topic}-in-each")) == everything


def test_two_topics_that_would_get_one_name_are_refused_before_anything_is_written(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    topic = name_of("clash")
    create_topics(broker_pair["east"].bootstrap_servers, [f"{topic}.1", f"{topic}.2"], partitions=1)
    rename = f"""topic_naming = "rename"\nrename = [{{ match = '({topic})\\..', to = '\\1' }}]"""
    config = config_of(tmp_path, broker_pair, {"f": east_to_west(f"{topic}.*", rename)})
    app.init_ledger(config)
    with pytest.raises(PreconditionError, match=rf"{topic}.1 and {topic}.2 would all be copied to {topic}"):
        run(config, spark)
    with admin_of(config, "west") as west:
        assert topic not in west.topics()


# Settings --------------------------------------------------------------------------------------


def test_settings_follow_a_running_flow(broker_pair: Pair, spark: SparkSession, tmp_path: Path) -> None:
    topic = name_of("settings")
    config = config_of(tmp_path, broker_pair, {"f": east_to_west(topic)})
    app.init_ledger(config)
    with admin_of(config, "east") as east, admin_of(config, "west") as west:
        east.create_topic(
            topic, partitions=1, replication_factor=1, configuration={"retention.ms": "7000000"}
        )

        def at_target(name: str) -> str | None:
            return west.configurations([f"east.{topic}"]).get(f"east.{topic}", {}).get(name)

        with running(config, spark):
            eventually(lambda: at_target("retention.ms") == "7000000", "created with retention")
            west.change_settings(f"east.{topic}", to_set={"segment.ms": "60000"}, to_remove=[])
            east.change_settings(
                topic,
                to_set={"max.message.bytes": "2000000", "cleanup.policy": "compact"},
                to_remove=["retention.ms"],
            )
            eventually(lambda: at_target("cleanup.policy") == "compact", "a setting that was set")
            eventually(lambda: at_target("retention.ms") is None, "a setting that was removed")
            assert at_target("max.message.bytes") == "2000000"
            east.change_settings(
                topic, to_set={"max.message.bytes": "78", "cleanup.policy": "delete"}, to_remove=[]
            )
            eventually(lambda: at_target("cleanup.policy") == "delete", "a setting beside a fence")
        assert at_target("max.message.bytes") == "2000000", "a fence is not copied"
        assert at_target("segment.ms") == "60000", "what the mirror did not set is not removed"
    actions = [content["action"] for content in operations(config, "topic_followed")]
    assert actions == ["created", "settings_changed", "settings_changed"]


def test_a_setting_that_endangers_the_copy_is_a_finding(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    topic = name_of("warned")
    follow = 'configuration_follow = "create"'
    config = config_of(tmp_path, broker_pair, {"f": east_to_west(topic, follow)})
    app.init_ledger(config)
    create_topics(broker_pair["east"].bootstrap_servers, [topic], partitions=1)
    assert not run(config, spark).stopped
    assert open_findings(config) == set()
    with admin_of(config, "west") as west:
        changed = {"compression.type": "gzip", "max.message.bytes": "1000", "retention.ms": "60000"}
        west.change_settings(f"east.{topic}", to_set=changed, to_remove=[])
        run(config, spark)
        names = {"recompressed", "max_message_bytes_below_source", "retention_below_source"}
        assert open_findings(config) == {(name, f"east.{topic}") for name in names}
        west.change_settings(
            f"east.{topic}",
            to_set={"compression.type": "producer"},
            to_remove=["max.message.bytes", "retention.ms"],
        )
    run(config, spark)
    assert open_findings(config) == set()


# Scope -----------------------------------------------------------------------------------------


@pytest.mark.fault(41)
def test_a_configuration_that_leaves_out_a_mirrored_topic_is_refused(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    servers = broker_pair["east"].bootstrap_servers
    kept, dropped = name_of("kept"), name_of("dropped")
    create_topics(servers, [kept, dropped], partitions=1)
    for topic in (kept, dropped):
        produce(servers, topic, "1")
    config = config_of(tmp_path, broker_pair, {"f": east_to_west(f"{kept}|{dropped}")})
    app.init_ledger(config)
    assert run(config, spark).records == 2
    narrowed = config_of(tmp_path, broker_pair, {"f": east_to_west(kept)})
    produce(servers, kept, "2")
    with pytest.raises(PreconditionError, match=rf"--allow-scope-reduction:\n  {dropped}: not selected"):
        run(narrowed, spark)
    assert run(narrowed, spark, allow_scope_reduction=True).records == 1
    assert operations(config, "scope_reduced") == [{"topics": {dropped: 1}}]
    produce(servers, kept, "3")
    assert run(narrowed, spark).records == 1, "what was accepted is not asked for again"


# Deletion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("delete_topics", [False, True])
def test_a_deleted_source_topic(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path, delete_topics: bool
) -> None:
    servers = {alias: cluster.bootstrap_servers for alias, cluster in broker_pair.items()}
    topic, other = name_of("gone"), name_of("stays")
    option = f"delete_topics = {str(delete_topics).lower()}"
    config = config_of(tmp_path, broker_pair, {"f": east_to_west(f"{topic}|{other}", option)})
    app.init_ledger(config)
    create_topics(servers["east"], [topic, other], partitions=1)
    produce(servers["east"], topic, "a")
    run(config, spark)
    with admin_of(config, "east") as east, admin_of(config, "west") as west:
        east.delete_topic(topic, topic_id=east.topics()[topic].topic_id)
        with running(config, spark):
            eventually(
                lambda: (
                    ("source_topic_deleted", topic) in open_findings(config)
                    or f"east.{topic}" not in west.topics()
                ),
                "the deletion is seen",
            )
            if delete_topics:
                eventually(lambda: f"east.{topic}" not in west.topics(), "the target is deleted")
            eventually(lambda: bool(operations(config, "finding_raised")), "the finding is recorded")
            time.sleep(1.5)  # more looks: nothing else is deleted, nothing is said twice
        assert (f"east.{topic}" in west.topics()) is not delete_topics
        assert f"east.{other}" in west.topics()
    deleted = [c["topic"] for c in operations(config, "topic_followed") if c["action"] == "deleted"]
    assert deleted == ([f"east.{topic}"] if delete_topics else [])
    assert len(operations(config, "finding_raised")) == 1
    assert bool(open_findings(config)) is not delete_topics


# Refusals --------------------------------------------------------------------------------------

ADA, ROOT = {"sasl.username": "ada"}, {"sasl.username": "root"}
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.password": "pw"}


@pytest.fixture(scope="module")
def guarded_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """`west` has an authorizer; its user `ada` may do nothing, `root` everything."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    security = ListenerSecurity(
        "SASL_PLAINTEXT",
        {
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": (
                f'{module} required user_ada="pw" user_root="pw";'
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:root",
        },
    )
    sandbox = Sandbox(tmp_path_factory.mktemp("guarded-pair") / "sandbox")
    try:
        yield sandbox.up(["east", "west"], 1, security={"west": security})
    finally:
        sandbox.down()


def guarded_config(folder: Path, pair: Pair, flow: str, user: str = "ada") -> MirrorConfig:
    (folder / "password").write_text("pw")
    login = f"""
        security.protocol = "SASL_PLAINTEXT"
        sasl.mechanism = "PLAIN"
        sasl.username = "{user}"
        sasl.password = {{ file = "password" }}
    """
    return config_of(folder, pair, {"f": flow}, west=login)


def grant(west: SandboxCluster, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    """Allow `ada` operations on all resources whose name begins so."""
    admin = AdminClient({"bootstrap.servers": west.bootstrap_servers, **LOGIN, **ROOT})
    pattern = ResourcePatternType.LITERAL if kind is ResourceType.BROKER else ResourcePatternType.PREFIXED
    bindings = [
        AclBinding(kind, name, pattern, "User:ada", "*", operation, AclPermissionType.ALLOW)
        for operation in operations
    ]
    for created in admin.create_acls(bindings).values():
        created.result(30)


ALL_BUT_ALTERING = (
    *(AclOperation.CREATE, AclOperation.WRITE, AclOperation.READ),
    *(AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS),
)


@pytest.mark.fault(18)
def test_what_one_topic_is_refused_does_not_stop_the_others(
    guarded_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    east, west = guarded_pair["east"], guarded_pair["west"]
    prefix = name_of("t")
    good, bad = f"{prefix}-good", f"{prefix}-bad"
    create_topics(east.bootstrap_servers, [good, bad], partitions=1)
    for topic in (good, bad):
        produce(east.bootstrap_servers, topic, "1", "2")
    grant(west, ResourceType.TOPIC, f"east.{good}", *ALL_BUT_ALTERING)
    config = guarded_config(tmp_path, guarded_pair, east_to_west(f"{prefix}.*"))
    app.init_ledger(config)
    summary = run(config, spark)
    assert summary.records == 2
    [stopped] = summary.stopped
    assert f"{bad}: cluster west does not allow this principal to create topic east.{bad}" in stopped
    assert open_findings(config) == {("target_topic_not_created", f"east.{bad}")}

    with admin_of(config, "east") as admin:
        admin.add_partitions(good, total=2)
        admin.change_settings(bad, to_set={"retention.ms": "7000000"}, to_remove=[])
    produce(east.bootstrap_servers, good, "3", partition=1)
    grant(west, ResourceType.TOPIC, f"east.{bad}", *ALL_BUT_ALTERING)
    summary = run(config, spark)
    assert summary.records == 2, "only what was refused before: the other has too few partitions now"
    assert len(summary.stopped) == 1
    assert open_findings(config) == {("partitions_not_added", f"east.{good}")}

    with admin_of(config, "east") as admin:
        admin.change_settings(bad, to_set={"retention.ms": "8000000"}, to_remove=[])
    produce(east.bootstrap_servers, bad, "3")
    grant(west, ResourceType.TOPIC, f"east.{good}", AclOperation.ALTER)
    summary = run(config, spark)
    assert (summary.records, summary.stopped) == (2, [])
    assert open_findings(config) == {("settings_not_changed", f"east.{bad}")} | {
        ("retention_below_source", f"east.{bad}")
    }

    grant(west, ResourceType.TOPIC, f"east.{bad}", AclOperation.ALTER_CONFIGS)
    assert not run(config, spark).stopped
    assert open_findings(config) == set()


def test_settings_that_may_not_be_read_do_not_stop_the_copy(
    guarded_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    east, west = guarded_pair["east"], guarded_pair["west"]
    topic = name_of("unread")
    create_topics(east.bootstrap_servers, [topic], partitions=1)
    produce(east.bootstrap_servers, topic, "1")
    grant(west, ResourceType.TOPIC, f"east.{topic}", *ALL_BUT_ALTERING[:-1])
    config = guarded_config(tmp_path, guarded_pair, east_to_west(topic))
    app.init_ledger(config)
    summary = run(config, spark)
    assert (summary.records, summary.stopped) == (1, [])
    assert open_findings(config) == {("settings_not_read", f"east.{topic}")}


def test_a_setting_that_the_target_does_not_know_stops_this_topic_only(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    """A replication factor that the target cannot give is refused by the broker, topic by topic."""
    prefix = name_of("c")
    servers = broker_pair["east"].bootstrap_servers
    create_topics(servers, [f"{prefix}.a", f"{prefix}-b"], partitions=1)
    for topic in (f"{prefix}.a", f"{prefix}-b"):
        produce(servers, topic, "1")
    config = config_of(tmp_path, broker_pair, {"f": east_to_west(f"{prefix}.*")})
    app.init_ledger(config)
    with admin_of(config, "west") as west:
        west.create_topic(f"east.{prefix}_a", partitions=1, replication_factor=1, configuration={})
    summary = run(config, spark)
    assert summary.records == 1
    assert len(summary.stopped) == 1
    assert "collide" in summary.stopped[0]
    assert open_findings(config) == {("target_topic_not_created", f"east.{prefix}.a")}


# Access ----------------------------------------------------------------------------------------


def test_access_control_lists_follow(guarded_pair: Pair, spark: SparkSession, tmp_path: Path) -> None:
    """Within the guarded cluster: rules of the source topic are lowered, created, and removed again."""
    topic = name_of("acls")
    naming = f"""topic_naming = "rename"\nrename = [{{ match = '({topic})', to = '\\1-copy' }}]"""
    flow = f'source = "west"\ntarget = "west"\ntopics = ["{topic}"]\nacls = "read"\n{naming}'
    config = guarded_config(tmp_path, guarded_pair, flow, user="root")
    app.init_ledger(config)
    with admin_of(config, "west") as admin:
        admin.create_topic(topic, partitions=1, replication_factor=1, configuration={})
        granted = [
            acl(topic, "all"),
            acl(topic, "write"),
            acl(topic, "describe"),
            acl(topic, "write", AclPermission.DENY),
        ]
        admin.create_acls(granted)
        eventually(lambda: acls_of(admin, topic) == set(granted), "the rules of the source")

        copy = f"{topic}-copy"
        assert not run(config, spark).stopped
        created = {acl(copy, "read"), acl(copy, "describe")}
        eventually(lambda: acls_of(admin, copy) == created, "the rules of the target")
        admin.create_acls([acl(copy, "delete")])
        admin.delete_acls([acl(topic, "all")])
        eventually(lambda: acls_of(admin, topic) == set(granted[1:]), "one rule less at the source")
        assert not run(config, spark).stopped
        left = {acl(copy, "describe"), acl(copy, "delete")}
        eventually(lambda: acls_of(admin, copy) == left, "only what the mirror had created is removed")
        assert acls_of(admin, topic) == set(granted[1:])
    assert [content["action"] for content in operations(config, "acls_followed")] == ["created", "removed"]


def test_without_an_authorizer_access_control_lists_are_a_finding(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    topic = name_of("open")
    create_topics(broker_pair["east"].bootstrap_servers, [topic], partitions=1)
    produce(broker_pair["east"].bootstrap_servers, topic, "1")
    config = config_of(tmp_path, broker_pair, {"f": east_to_west(topic, 'acls = "read"')})
    app.init_ledger(config)
    summary = run(config, spark)
    assert (summary.records, summary.stopped) == (1, [])
    assert open_findings(config) == {("acls_not_read", None)}


def acl(topic: str, operation: str, permission: AclPermission = AclPermission.ALLOW) -> TopicAcl:
    return TopicAcl(AclPattern.LITERAL, topic, "User:reader", "*", operation, permission)


def acls_of(admin: KafkaAdmin, topic: str) -> set[TopicAcl]:
    return {found for found in admin.topic_acls() if found.name == topic}
