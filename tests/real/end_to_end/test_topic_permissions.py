"""What one topic is refused, and access control lists that follow, on a broker with an authorizer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from ledger import app
from ledger.adapters.kafka.admin import KafkaAdmin
from ledger.config import MirrorConfig
from ledger.domain.topic_acls import AclPattern, AclPermission, TopicAcl
from ledger.sandbox import ListenerSecurity, Sandbox, SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.support.following import (
    Pair,
    admin_of,
    config_of,
    east_to_west,
    eventually,
    name_of,
    open_findings,
    operations,
    produce,
    run,
)

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
