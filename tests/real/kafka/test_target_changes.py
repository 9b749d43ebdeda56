"""What a real target refuses of topics: a setting, and more of them than a quota allows at a time."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from uuid import uuid4

import pytest

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.errors import RefusedSettingError
from ledger.facts.acls import AclFollow
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.connection import CLIENT_ID
from ledger.mirror.targets import FollowingRecord
from ledger.mirror.topics import FlowTopics
from ledger.sandbox import SandboxCluster
from ledger.topics.following import NewTopic, TopicFollowing
from ledger.topics.naming import TopicSelection
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.support.ledgers import claimed
from tests.support.memory_flows import PREFIX, Flow, follow
from tests.support.quotas import limit
from tests.support.waiting import eventually

REFUSED = {"segment.bytes": "524288"}
"""Brokers before 4.0 took it."""


@pytest.fixture(scope="module")
def west(broker_pair: Mapping[str, SandboxCluster]) -> Iterator[KafkaAdmin]:
    servers = broker_pair["west"].bootstrap_servers
    admin = KafkaAdmin(
        "west", ClusterConfig(name="west", bootstrap_servers=servers), SystemClock(), timeout_s=20.0
    )
    yield admin
    admin.close()


def _topics(flow: Flow, west: KafkaAdmin, pattern: str) -> FlowTopics:
    """A driver of a flow from a cluster in memory, which took other settings, to a real one."""
    return FlowTopics(
        TopicSelection((pattern,), naming=PREFIX),
        TopicFollowing(PREFIX, 1),
        flow.east,
        west,
        FollowingRecord(
            "f", claimed(MemoryFactLog(flow.ledger, flow.clock), "f"), MemoryLedgerState(flow.ledger)
        ),
        SystemClock(),
        delete_topics=False,
        acls=AclFollow.NONE,
    )


def test_a_setting_that_the_target_refuses_is_left_out_and_told_before(west: KafkaAdmin) -> None:
    name = f"small-{uuid4().hex[:8]}"
    flow = Flow()
    flow.source(name, retention_ms="7200000", segment_bytes="524288")
    wanted = NewTopic(f"east.{name}", 1, 1, {**REFUSED, "retention.ms": "7200000"})
    assert "segment.bytes" in west.refused_settings([wanted])[wanted.name]
    assert west.refused_settings([replace(wanted, configuration={})]) == {}
    with pytest.raises(RefusedSettingError, match=r"segment\.bytes"):
        west.create_topic(wanted.name, partitions=1, replication_factor=1, configuration=REFUSED)
    topics = _topics(flow, west, name)
    for _ in range(2):
        assert follow(topics) == [(name, wanted.name, 0)]
    own = west.configurations([wanted.name])[wanted.name]
    assert own["retention.ms"] == "7200000"
    assert "segment.bytes" not in own
    flow.east.change_settings(name, to_set={"retention.ms": "7300000"}, to_remove=[])
    follow(topics)
    eventually(
        lambda: west.configurations([wanted.name])[wanted.name]["retention.ms"] == "7300000",
        "what the target takes follows",
    )
    [(finding, about, message)] = flow.findings()
    assert (finding, about) == ("settings_not_changed", wanted.name)
    assert "segment.bytes = 524288" in str(message)


@pytest.fixture
def slow_west(broker_pair: Mapping[str, SandboxCluster], west: KafkaAdmin) -> Iterator[KafkaAdmin]:
    """Five partitions at once, then one each second."""
    servers = broker_pair["west"].bootstrap_servers
    limit(servers, CLIENT_ID, "controller_mutation_rate", 1.0)
    yield west
    limit(servers, CLIENT_ID, "controller_mutation_rate", None)


def test_a_quota_on_creation_is_waited_for(slow_west: KafkaAdmin) -> None:
    start = f"slow-{uuid4().hex[:8]}"
    flow = Flow()
    for number in range(4):
        flow.source(f"{start}-{number}", partitions=6)
    topics = _topics(flow, slow_west, f"{start}.*")
    first = {source for source, _, _ in follow(topics)}
    assert 0 < len(first) < 4, "those that are there are copied meanwhile"
    assert topics.changes.waits_until is not None
    assert flow.findings() == []
    ends = time.monotonic() + 60
    while len(follow(topics)) < 24:
        assert time.monotonic() < ends
        time.sleep(0.5)
    assert topics.changes.waits_until is None
