"""When settings of topics are read again, and when what was read is used."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ledger.kafka.cluster import SettingsAnswer, TopicDescription
from ledger.mirror.topics import PacedSettings
from tests.simulation.kafka.cluster import MemoryCluster
from tests.support.fakes import FakeClock


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
