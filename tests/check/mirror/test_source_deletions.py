"""Source topics that are gone: what becomes of their target topics."""

import pytest

from tests.support.memory_flows import Flow, follow


def test_a_deleted_source_keeps_its_target(caplog: pytest.LogCaptureFixture) -> None:
    flow = Flow()
    flow.source("a")
    topics = flow.topics()
    follow(topics)
    flow.east.delete_topic("a")
    for _ in range(3):
        assert follow(topics) == []
    assert flow.findings() == [("source_topic_deleted", "a", "a is gone at the source; east.a is kept")]
    assert "east.a" in flow.west.topics()


def test_a_target_is_deleted_when_its_source_was_seen_gone_twice() -> None:
    flow = Flow()
    flow.source("a")
    flow.source("b")
    topics = flow.topics(delete_topics=True)
    follow(topics)
    flow.copied("a", "east.a")
    flow.east.delete_topic("a")
    follow(topics)
    assert "east.a" in flow.west.topics()
    follow(topics)
    assert flow.west.topics().keys() == {"east.b"}
    assert flow.actions()[-1] == ("deleted", "east.a")
    assert flow.findings() == []
    follow(topics)
    assert flow.actions().count(("deleted", "east.a")) == 1


def test_a_source_that_comes_back_keeps_its_target() -> None:
    flow = Flow()
    flow.source("a")
    topics = flow.topics(delete_topics=True)
    follow(topics)
    flow.copied("a", "east.a")
    for _ in range(3):
        flow.east.delete_topic("a")
        follow(topics)
        flow.source("a")
        follow(topics)
    assert "east.a" in flow.west.topics()
    assert ("deleted", "east.a") not in flow.actions()


def test_a_topic_that_may_not_be_seen_any_more_is_not_deleted() -> None:
    flow = Flow()
    flow.source("a")
    topics = flow.topics(delete_topics=True)
    follow(topics)
    flow.copied("a", "east.a")
    flow.east.delete_topic("a")
    flow.east.refused.add(("see", "a"))
    for _ in range(4):
        follow(topics)
    assert "east.a" in flow.west.topics()
    assert flow.findings() == []


def test_only_the_life_that_the_flow_wrote_to_is_deleted() -> None:
    flow = Flow()
    flow.source("a")
    topics = flow.topics(delete_topics=True)
    follow(topics)
    flow.copied("a", "east.a")
    flow.west.delete_topic("east.a")
    flow.west.create_topic("east.a", partitions=1, replication_factor=1, configuration={})
    follow(topics)
    flow.east.delete_topic("a")
    for _ in range(3):
        follow(topics)
    assert "east.a" in flow.west.topics()


def test_a_refused_deletion_is_told_and_tried_again() -> None:
    flow = Flow()
    flow.source("a")
    topics = flow.topics(delete_topics=True)
    follow(topics)
    flow.copied("a", "east.a")
    flow.east.delete_topic("a")
    flow.west.refused.add(("delete", "east.a"))
    for _ in range(3):
        follow(topics)
    assert [(name, topic) for name, topic, _ in flow.findings()] == [("target_topic_not_deleted", "east.a")]
    flow.west.refused.clear()
    follow(topics)
    assert (flow.west.topics(), flow.findings()) == ({}, [])


def test_a_target_that_the_flow_never_wrote_to_is_kept() -> None:
    flow = Flow()
    flow.source("a")
    flow.west.create_topic("east.a", partitions=1, replication_factor=1, configuration={})
    topics = flow.topics(delete_topics=True)
    follow(topics)
    flow.east.delete_topic("a")
    for _ in range(3):
        follow(topics)
    assert flow.findings() == [("source_topic_deleted", "a", "a is gone at the source; east.a is kept")]
