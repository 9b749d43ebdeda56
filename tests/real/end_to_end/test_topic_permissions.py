"""What one topic is refused, and access control lists that follow, on a broker with an authorizer."""

from pathlib import Path

import pytest
from kafka.admin import ACLOperation

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.facts.permissions import Permission, topic_acl
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox.workload import create_topics
from tests.support.config_files import write_config
from tests.support.following import (
    OFTEN,
    Pair,
    admin_of,
    copying,
    name_of,
    produce,
)
from tests.support.guarded import Guarded, login_by_file
from tests.support.recorded import open_findings, operations
from tests.support.runs import FLOW, run
from tests.support.site import RealSite
from tests.support.waiting import eventually

USER = "ada"


def guarded_config(folder: Path, pair: Pair, guarded: Guarded, flow: str, user: str = USER) -> MirrorConfig:
    """A flow between `east`, which stands open, and the guarded cluster as `west`."""
    login = login_by_file(folder, user, guarded.password)
    servers = {"east": pair["east"].bootstrap_servers, "west": guarded.without_tls}
    return write_config(folder, servers, {FLOW: OFTEN + flow}, properties={"west": login})


ALL_BUT_ALTERING = (
    *(ACLOperation.CREATE, ACLOperation.WRITE, ACLOperation.READ),
    *(ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS),
)


@pytest.mark.fault(18)
def test_what_one_topic_is_refused_does_not_stop_the_others(site: RealSite, guarded: Guarded) -> None:
    east = site.pair["east"]
    prefix = name_of("t")
    good, bad = f"{prefix}-good", f"{prefix}-bad"
    create_topics(east.bootstrap_servers, [good, bad], partitions=1)
    for topic in (good, bad):
        produce(east.bootstrap_servers, topic, "1", "2")
    guarded.allow(USER, f"east.{good}", *ALL_BUT_ALTERING, is_prefix=True)
    config = guarded_config(site.folder, site.pair, guarded, copying(f"{prefix}.*"))
    init_ledger(config)
    summary = run(config, site.spark)
    assert summary.records == 2
    told = f"cluster west does not allow this principal to create topic east.{bad}"
    assert told in summary.blocked[bad]
    assert open_findings(config) == {("target_topic_not_created", f"east.{bad}")}

    with admin_of(config, "east") as admin:
        admin.add_partitions(good, total=2)
        admin.change_settings(bad, to_set={"retention.ms": "7000000"}, to_remove=[])
    produce(east.bootstrap_servers, good, "3", partition=1)
    guarded.allow(USER, f"east.{bad}", *ALL_BUT_ALTERING, is_prefix=True)
    summary = run(config, site.spark)
    assert summary.records == 2, "only what was refused before: the other has too few partitions now"
    assert summary.blocked.keys() == {good}
    assert open_findings(config) == {("partitions_not_added", f"east.{good}")}

    with admin_of(config, "east") as admin:
        admin.change_settings(bad, to_set={"retention.ms": "8000000"}, to_remove=[])
    produce(east.bootstrap_servers, bad, "3")
    guarded.allow(USER, f"east.{good}", ACLOperation.ALTER, is_prefix=True)
    summary = run(config, site.spark)
    assert (summary.records, summary.is_unfinished) == (2, False)
    assert open_findings(config) == {("settings_not_changed", f"east.{bad}")} | {
        ("retention_below_source", f"east.{bad}")
    }

    guarded.allow(USER, f"east.{bad}", ACLOperation.ALTER_CONFIGS, is_prefix=True)
    assert not run(config, site.spark).is_unfinished
    assert open_findings(config) == set()


def test_settings_that_may_not_be_read_do_not_stop_the_copy(site: RealSite, guarded: Guarded) -> None:
    east = site.pair["east"]
    topic = name_of("unread")
    create_topics(east.bootstrap_servers, [topic], partitions=1)
    produce(east.bootstrap_servers, topic, "1")
    guarded.allow(USER, f"east.{topic}", *ALL_BUT_ALTERING[:-1], is_prefix=True)
    config = guarded_config(site.folder, site.pair, guarded, copying(topic))
    init_ledger(config)
    summary = run(config, site.spark)
    assert (summary.records, summary.is_unfinished) == (1, False)
    assert open_findings(config) == {("settings_not_read", f"east.{topic}")}


def test_a_setting_that_the_target_does_not_know_stops_this_topic_only(site: RealSite) -> None:
    """A replication factor that the target cannot give is refused by the broker, topic by topic."""
    prefix = name_of("c")
    servers = site.pair["east"].bootstrap_servers
    create_topics(servers, [f"{prefix}.a", f"{prefix}-b"], partitions=1)
    for topic in (f"{prefix}.a", f"{prefix}-b"):
        produce(servers, topic, "1")
    config = site.configured({FLOW: copying(f"{prefix}.*")})
    with admin_of(config, "west") as west:
        west.create_topic(f"east.{prefix}_a", partitions=1, replication_factor=1, configuration={})
    summary = run(config, site.spark)
    assert summary.records == 1
    [reason] = summary.blocked.values()
    assert "collide" in reason
    assert open_findings(config) == {("target_topic_not_created", f"east.{prefix}.a")}


# Access ----------------------------------------------------------------------------------------


def test_access_control_lists_follow(site: RealSite, guarded: Guarded) -> None:
    """Within the guarded cluster: rules of the source topic are lowered, created, and removed again."""
    topic = name_of("acls")
    naming = f"""topic_naming = "rename"\nrename = [{{ match = '({topic})', to = '\\1-copy' }}]"""
    flow = f'source = "west"\ntarget = "west"\ntopics = ["{topic}"]\nacls = "read"\n{naming}'
    config = guarded_config(site.folder, site.pair, guarded, flow, user="root")
    init_ledger(config)
    with admin_of(config, "west") as admin:
        admin.create_topic(topic, partitions=1, replication_factor=1, configuration={})
        granted = [
            acl(topic, "all"),
            acl(topic, "write"),
            acl(topic, "describe"),
            acl(topic, "write", "deny"),
        ]
        admin.create_acls(granted)
        eventually(lambda: acls_of(admin, topic) == set(granted), "the rules of the source")

        copy = f"{topic}-copy"
        assert not run(config, site.spark).is_unfinished
        created = {acl(copy, "read"), acl(copy, "describe")}
        eventually(lambda: acls_of(admin, copy) == created, "the rules of the target")
        admin.create_acls([acl(copy, "delete")])
        admin.delete_acls([acl(topic, "all")])
        eventually(lambda: acls_of(admin, topic) == set(granted[1:]), "one rule less at the source")
        assert not run(config, site.spark).is_unfinished
        left = {acl(copy, "describe"), acl(copy, "delete")}
        eventually(lambda: acls_of(admin, copy) == left, "only what the mirror had created is removed")
        assert acls_of(admin, topic) == set(granted[1:])
    assert [content["action"] for content in operations(config, "acls_followed")] == ["created", "removed"]


def test_without_an_authorizer_access_control_lists_are_a_finding(site: RealSite) -> None:
    topic = name_of("open")
    create_topics(site.pair["east"].bootstrap_servers, [topic], partitions=1)
    produce(site.pair["east"].bootstrap_servers, topic, "1")
    config = site.configured({FLOW: copying(topic, 'acls = "read"')})
    summary = run(config, site.spark)
    assert (summary.records, summary.is_unfinished) == (1, False)
    assert open_findings(config) == {("acls_not_read", None)}


def acl(topic: str, operation: str, permission: str = "allow") -> Permission:
    return topic_acl(topic, "User:reader", operation, permission_type=permission)


def acls_of(admin: KafkaAdmin, topic: str) -> set[Permission]:
    return {found for found in admin.topic_acls() if found.resource_name == topic}
