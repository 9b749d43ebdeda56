"""Source topics that are gone: what becomes of their target topics; and when settings are read again."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from ledger.facts.direction import Demoted, Promoted
from ledger.kafka.cluster import SettingsAnswer, TopicDescription
from ledger.mirror.topics import FlowTopics, PacedSettings
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.stored_batches import NO_PRODUCER, Producer, application_batch, content
from tests.support.fakes import FakeClock
from tests.support.ledgers import operators
from tests.support.memory_flows import Flow, follow

# -- Topics that are gone --------------------------------------------------------------------------

KEPT = "a was deleted at the source; east.a is kept"


def follow_often(topics: FlowTopics, *, times: int) -> None:
    for _ in range(times):
        follow(topics)


def mirrored(*names: str) -> tuple[Flow, FlowTopics]:
    """A flow that deletes topics and has copied a record of each of these."""
    flow = Flow()
    flow.claimed()
    for name in names:
        flow.source(name)
    topics = flow.topics(delete_topics=True)
    follow(topics)
    for name in names:
        flow.copied(name, f"east.{name}")
    return flow, topics


def test_a_deleted_source_keeps_its_target(caplog: pytest.LogCaptureFixture) -> None:
    flow = Flow()
    flow.source("a")
    topics = flow.topics()
    follow(topics)
    flow.east.delete_topic("a")
    for _ in range(3):
        assert follow(topics) == []
    assert flow.findings() == [("source_topic_deleted", "a", KEPT)]
    assert "east.a" in flow.west.topics()


def test_a_target_is_deleted_when_its_source_was_seen_gone_twice() -> None:
    flow, topics = mirrored("a", "b")
    flow.deleted("a")
    follow(topics)
    assert "east.a" in flow.west.topics()
    follow(topics)
    assert flow.west.topics().keys() == {"east.b"}
    assert flow.actions()[-1] == ("deleted", "east.a")
    assert flow.findings() == []
    follow(topics)
    assert flow.actions().count(("deleted", "east.a")) == 1


def test_a_source_that_comes_back_keeps_its_target() -> None:
    flow, topics = mirrored("a", "b")
    for _ in range(3):
        flow.deleted("a")
        follow(topics)
        flow.source("a")
        follow(topics)
    assert "east.a" in flow.west.topics()
    assert ("deleted", "east.a") not in flow.actions()


def test_a_topic_that_may_not_be_seen_any_more_is_not_deleted() -> None:
    flow, topics = mirrored("a", "b")
    flow.deleted("a")
    flow.east.refused.add(("see", "a"))
    follow_often(topics, times=4)
    assert "east.a" in flow.west.topics()
    assert flow.findings() == []


def test_only_the_life_that_the_flow_wrote_to_is_deleted() -> None:
    flow, topics = mirrored("a", "b")
    flow.west.delete_topic("east.a")
    flow.west.create_topic("east.a", partitions=1, replication_factor=1, configuration={})
    follow(topics)
    flow.deleted("a")
    follow_often(topics, times=3)
    assert "east.a" in flow.west.topics()


def test_a_refused_deletion_is_told_and_tried_again() -> None:
    flow, topics = mirrored("a", "b")
    flow.deleted("a")
    flow.west.refused.add(("delete", "east.a"))
    follow_often(topics, times=3)
    assert [(name, topic) for name, topic, _ in flow.findings()] == [("target_topic_not_deleted", "east.a")]
    flow.west.refused.clear()
    follow(topics)
    assert flow.west.topics().keys() == {"east.b"}
    assert flow.findings() == []


def test_a_target_that_the_flow_never_wrote_to_is_kept() -> None:
    flow, topics = mirrored("b")
    flow.source("a")
    flow.west.create_topic("east.a", partitions=1, replication_factor=1, configuration={})
    follow(topics)
    flow.deleted("a")
    follow_often(topics, times=3)
    assert flow.findings() == [("source_topic_deleted", "a", KEPT)]


def test_a_deletion_that_no_recorder_saw_proves_nothing() -> None:
    flow, topics = mirrored("a", "b")
    flow.east.delete_topic("a")
    follow_often(topics, times=3)
    assert "east.a" in flow.west.topics()
    assert flow.findings() == [
        ("source_topic_deleted", "a", f"{KEPT}: no recorder of east has recorded its deletion")
    ]


def test_another_life_of_the_topic_that_was_deleted_proves_nothing() -> None:
    flow, topics = mirrored("b")
    flow.source("a")
    flow.deleted("a")
    flow.source("a")
    follow(topics)
    flow.copied("a", "east.a")
    flow.east.delete_topic("a")
    follow_often(topics, times=3)
    assert "east.a" in flow.west.topics()


def test_nothing_is_deleted_on_the_word_of_a_cluster_without_topics() -> None:
    flow, topics = mirrored("a")
    flow.deleted("a")
    follow_often(topics, times=3)
    assert "east.a" in flow.west.topics()
    assert flow.findings() == [("source_topic_deleted", "a", f"{KEPT}: the source has no topics at all")]


def test_most_of_what_a_flow_mirrored_is_not_deleted_at_one_look() -> None:
    flow, topics = mirrored("a", "b", "c")
    flow.source("of-others")
    for name in ("a", "b"):
        flow.deleted(name)
    follow_often(topics, times=3)
    assert {"east.a", "east.b", "east.c"} <= flow.west.topics().keys()
    assert [message for _, _, message in flow.findings()] == [
        f"{name} was deleted at the source; east.{name} is kept: 2 of the 3 topics that this flow mirrored were "
        "deleted at once"
        for name in ("a", "b")
    ]


def test_half_of_what_a_flow_mirrored_may_go_at_one_look() -> None:
    flow, topics = mirrored("a", "b", "c", "d")
    for name in ("a", "b"):
        flow.deleted(name)
    follow_often(topics, times=2)
    assert flow.west.topics().keys() == {"east.c", "east.d"}


def test_the_only_topic_of_a_flow_may_go() -> None:
    flow, topics = mirrored("a")
    flow.west.create_topic("east.of-others", partitions=1, replication_factor=1, configuration={})
    flow.source("of-others")  # not copied yet, so it is none that the flow mirrored
    flow.deleted("a")
    for _ in range(2):
        topics.follow(written_topic_ids=frozenset())
    assert "east.a" not in flow.west.topics()


@pytest.mark.parametrize("side", ["east", "west"])
def test_nothing_is_deleted_when_another_cluster_answers(side: str) -> None:
    flow, _ = mirrored("a", "b")
    topics = flow.topics(delete_topics=True)
    flow.deleted("a")
    {"east": flow.east, "west": flow.west}[side].kafka_id = "another"
    follow_often(topics, times=3)
    assert "east.a" in flow.west.topics()
    [(name, _, message)] = flow.findings()[-1:]
    assert name == "target_topic_not_deleted"
    assert f"another cluster answers behind {side}" in str(message)
    assert f"mirror-ledger accept-cluster {side} --cluster-id another" in str(message)


def test_a_rebuilt_source_deletes_nothing() -> None:
    flow, _ = mirrored("orders", "payments")
    flow.east.format("another")
    topics = flow.topics(delete_topics=True)  # a supervisor starts the driver again
    follow_often(topics, times=3)
    assert flow.west.topics().keys() == {"east.orders", "east.payments"}


OWN, FOREIGN = 7, 8


def written(flow: Flow, *producers: int) -> None:
    """One record each at the target of `a`, whose first one the flow has recorded."""
    for producer_id in producers:
        batch = application_batch([content(b"k", b"v")], [0])
        by = Producer() if producer_id == NO_PRODUCER else Producer(producer_id, 0, 0)
        flow.west.log("east.a", 0).append(replace(batch, producer=by), now_ms=0)


@pytest.mark.parametrize("producer_id", [FOREIGN, NO_PRODUCER])
def test_what_others_wrote_to_the_target_is_not_deleted(producer_id: int) -> None:
    flow, topics = mirrored("a", "b")
    written(flow, OWN, OWN, producer_id)
    flow.deleted("a")
    follow_often(topics, times=3)
    assert len(flow.west.log("east.a", 0).readable()) == 3
    reason = "partition 0 of east.a holds what this flow did not write, at offset 2"
    assert flow.findings() == [("source_topic_deleted", "a", f"{KEPT}: {reason}")]


def test_what_lies_in_front_of_the_first_copy_is_read_too() -> None:
    flow, topics = mirrored("b")
    flow.source("a")
    follow(topics)
    written(flow, FOREIGN, OWN)
    flow.copied("a", "east.a", target_start=1)
    flow.deleted("a")
    follow_often(topics, times=3)
    assert "east.a" in flow.west.topics()


def test_own_records_that_nobody_has_recorded_hold_nothing_back() -> None:
    flow, topics = mirrored("a", "b")
    written(flow, OWN, OWN)
    flow.deleted("a")
    follow_often(topics, times=2)
    assert "east.a" not in flow.west.topics()


def test_a_partition_without_a_leader_may_hold_anything() -> None:
    flow, topics = mirrored("a", "b")
    flow.deleted("a")
    flow.west.move_leader("east.a", 0, None)
    follow_often(topics, times=3)
    assert "east.a" in flow.west.topics()


@pytest.mark.parametrize("named", [None, ("east.a",)])
def test_what_was_promoted_once_is_not_deleted(named: tuple[str, ...] | None) -> None:
    """Applications wrote there, though it is a mirror's again."""
    flow, topics = mirrored("a", "b")
    record = operators(flow.ledger, flow.clock)
    for kind in (Promoted, Demoted):
        change = kind(cluster="west", cluster_id="W", former="east", former_id="E", topics=named)
        record.record(change, flow=None, reason=None)
    flow.deleted("a")
    follow_often(topics, times=3)
    assert "east.a" in flow.west.topics()
    assert "was promoted once" in str(flow.findings()[0][2])


# -- Settings --------------------------------------------------------------------------------------


class Slow(MemoryCluster):
    """A cluster that takes a while to describe settings."""

    def __init__(self, clock: FakeClock, takes_s: float) -> None:
        super().__init__("east", clock)
        self.wall, self.takes_s = clock, takes_s
        self.asked: list[list[str]] = []

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        self.asked.append(list(topics))
        self.wall.now_s += self.takes_s
        return super().topic_settings(topics)

    def make(self, name: str) -> TopicDescription:
        self.create_topic(name, partitions=1, replication_factor=1, configuration={"retention.ms": "1"})
        return self.topics()[name]


@dataclass
class Case:
    takes_s: float
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.cluster = Slow(self.clock, self.takes_s)
        self.settings = PacedSettings(self.cluster, self.clock)

    def own(self, *topics: TopicDescription) -> dict[str, dict[str, str]]:
        return {name: dict(found.own) for name, found in self.settings.of(topics).read.items()}


def test_what_is_read_at_once_is_read_at_every_look() -> None:
    case = Case(takes_s=0.0)
    topic = case.cluster.make("a")
    for _ in range(3):
        assert case.own(topic) == {"a": {"retention.ms": "1"}}
    assert case.cluster.asked == [["a"]] * 3


def test_what_took_long_is_used_for_twenty_times_as_long() -> None:
    case = Case(takes_s=2.0)
    topic = case.cluster.make("a")
    case.own(topic)
    case.cluster.change_settings("a", to_set={"retention.ms": "2"}, to_remove=[])
    case.clock.now_s += 39.9
    assert case.own(topic) == {"a": {"retention.ms": "1"}}
    case.clock.now_s += 0.2
    assert case.own(topic) == {"a": {"retention.ms": "2"}}
    assert case.cluster.asked == [["a"]] * 2


def test_new_and_changed_topics_are_read_at_once() -> None:
    case = Case(takes_s=2.0)
    known, changed = case.cluster.make("a"), case.cluster.make("b")
    case.own(known, changed)
    case.settings.forget(changed.topic_id)
    new = case.cluster.make("c")
    assert case.own(known, changed, new).keys() == {"a", "b", "c"}
    assert case.own(new).keys() == {"c"}
    assert case.cluster.asked == [["a", "b"], ["b", "c"]]


def test_another_life_of_a_topic_is_another_topic() -> None:
    case = Case(takes_s=2.0)
    case.own(case.cluster.make("a"))
    case.cluster.delete_topic("a")
    case.cluster.create_topic("a", partitions=1, replication_factor=1, configuration={})
    assert case.own(case.cluster.topics()["a"]) == {"a": {}}


def test_a_topic_without_an_answer_is_asked_for_again() -> None:
    case = Case(takes_s=2.0)
    known, gone = case.cluster.make("a"), case.cluster.make("b")
    case.cluster.delete_topic("b")
    for _ in range(2):
        assert case.own(known, gone).keys() == {"a"}
    assert case.cluster.asked == [["a", "b"], ["b"]]
