"""Groups of which some cannot be read now: asked for again for a while, and never taken for deleted too early."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.groups import GroupEvent, UnreadGroup
from ledger.kafka import groups as cluster_groups
from ledger.kafka import groups as group_readings
from ledger.kafka import groups as group_requests
from ledger.kafka.cluster import GroupListing
from ledger.kafka.groups import KafkaGroups, Reading
from tests.support.fakes import FakeClock

GONE, ALIVE = UnreadGroup(GroupEvent.GONE), UnreadGroup(GroupEvent.HIDDEN)
LOADING = UnreadGroup(GroupEvent.UNAVAILABLE, "COORDINATOR_LOAD_IN_PROGRESS")
DENIED = UnreadGroup(GroupEvent.HIDDEN, "GROUP_AUTHORIZATION_FAILED")


@dataclass
class Connection:
    """Gives these readings one after the other, the last one again and again; `asked`: for which groups."""

    readings: list[Reading]
    listed: list[GroupListing] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)

    def run(self, _operation: str, work: Callable[..., Any], *arguments: Sequence[str]) -> Any:
        if work is group_requests.listed_groups:
            return self.listed
        assert work in (group_readings.unlisted_groups, group_readings.read_commits)
        self.asked.append(list(arguments[0]))
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_groups, "_POLL_S", 0.01)


def groups_of(connection: Connection, *, timeout_s: float = 30.0) -> KafkaGroups:
    return KafkaGroups("east", connection, FakeClock(), timeout_s=timeout_s)  # type: ignore[arg-type]


def test_a_group_that_is_listed_after_all_is_not_deleted() -> None:
    """Its coordinator was moving: no broker listed it, and by name only classic groups are found."""
    connection = Connection([Reading({}, {"moving": GONE, "deleted": GONE, "alive": ALIVE})])
    connection.listed = [
        GroupListing("moving", "consumer", "Stable"),
        GroupListing("alive", "classic", "Empty"),
    ]
    assert groups_of(connection).unlisted_groups(["moving", "deleted", "alive"]) == {
        "moving": UnreadGroup(GroupEvent.UNAVAILABLE, "NOT_COORDINATOR"),
        "deleted": GONE,
        "alive": ALIVE,
    }
    with pytest.raises(ClusterUnavailableError, match="answers for group moving: NOT_COORDINATOR; not done"):
        groups_of(connection).dead_groups(["moving", "deleted", "alive"])


def test_only_groups_that_are_unavailable_are_asked_for_again_until_they_answer() -> None:
    first = Reading({"a": []}, {"b": LOADING, "c": LOADING, "d": DENIED})
    connection = Connection([first, Reading({"b": []}, {"c": LOADING}), Reading({"c": []}, {})])
    answer = groups_of(connection).group_commits(
        [GroupListing(name, "classic", "Empty") for name in "abcd"], topic_ids={}
    )
    assert answer.refused == {"d": DENIED}
    assert connection.asked == [["a", "b", "c", "d"], ["b", "c"], ["c"]]


def test_what_stays_unavailable_is_said_with_the_reason() -> None:
    connection = Connection([Reading({"a": []}, {"b": LOADING})])
    listed = [GroupListing(name, "classic", "Empty") for name in "ab"]
    groups = groups_of(connection, timeout_s=0.1)
    assert groups.group_commits(listed, topic_ids={}).refused == {"b": LOADING}
    assert 1 < len(connection.asked) < 10
    with pytest.raises(ClusterUnavailableError, match="COORDINATOR_LOAD_IN_PROGRESS; not done"):
        groups.commits(listed, topic_ids={})


def test_a_denied_group_is_an_error_where_all_are_needed() -> None:
    groups = groups_of(Connection([Reading({}, {"b": DENIED})]))
    with pytest.raises(PreconditionError, match="read the committed offsets of group b: GROUP_AUTHOR"):
        groups.commits([GroupListing("b", "classic", "Empty")], topic_ids={})
