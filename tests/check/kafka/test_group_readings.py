"""Groups and their commits as coordinators answer: what cannot be read now is never taken for deleted."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.groups import GroupEvent, UnreadGroup
from ledger.kafka import groups as cluster_groups
from ledger.kafka import groups as group_readings
from ledger.kafka import groups as group_requests
from ledger.kafka.cluster import GroupListing
from ledger.kafka.groups import KafkaGroups, Reading
from tests.support.fakes import FakeClock

# -- Groups ----------------------------------------------------------------------------------------

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


# -- Commits and share-partition offsets -----------------------------------------------------------

UNSTABLE = errors.UnstableOffsetCommitError.errno
NO_COORDINATOR = errors.CoordinatorNotAvailableError.errno
NOT_ALLOWED = errors.GroupAuthorizationFailedError.errno
NO_TOPIC = errors.UnknownTopicOrPartitionError.errno
LOST = errors.KafkaStorageError.errno


@dataclass
class Coordinators:
    """A manager of connections. `committed`: by group (partition, offset, whether another one is pending, error)."""

    committed: dict[str, list[tuple[int, int, bool, int]]]
    of_groups: dict[str, int] = field(default_factory=dict)
    undisclosed: dict[str, int] = field(default_factory=dict)
    fetched: list[tuple[list[str], bool]] = field(default_factory=list)
    cluster: Any = field(default_factory=lambda: SimpleNamespace(update_metadata=lambda _answer: None))

    async def send(self, request: Any, node_id: int | None = None) -> Any:
        assert node_id in (None, 1), "no other node was named"
        if isinstance(request, MetadataRequest):
            return SimpleNamespace(brokers=[])
        if isinstance(request, FindCoordinatorRequest):
            return SimpleNamespace(
                coordinators=[self._coordinator(name) for name in request.coordinator_keys]
            )
        if isinstance(request, OffsetFetchRequest):
            names = [group.group_id for group in request.groups]
            self.fetched.append((names, request.require_stable))
            return SimpleNamespace(groups=[self._group(name, request.require_stable) for name in names])
        raise errors.IncompatibleBrokerVersion(f"{request.name} is too new")

    def _coordinator(self, name: str) -> Any:
        error = self.undisclosed.get(name, 0)
        return SimpleNamespace(key=name, node_id=1, error_code=error, error_message=None)

    def _group(self, name: str, require_stable: bool) -> Any:
        entries = [
            SimpleNamespace(
                partition_index=partition,
                committed_offset=-1 if is_pending and require_stable else offset,
                error_code=UNSTABLE if is_pending and require_stable else error,
            )
            for partition, offset, is_pending, error in self.committed.get(name, [])
        ]
        topics = [SimpleNamespace(name="t", partitions=entries)]
        return SimpleNamespace(group_id=name, topics=topics, error_code=self.of_groups.get(name, 0))


def read(manager: Any, *groups: str) -> Reading:
    return asyncio.run(_awaited(group_readings.read_commits, manager, groups))


async def _awaited(work: Any, manager: Any, groups: tuple[str, ...]) -> Reading:
    found: Reading = await work(manager, list(groups))
    return found


def told(reading: Reading) -> dict[str, list[tuple[int, int, bool]]]:
    return {
        group: [(one.entry.partition_index, one.entry.committed_offset, one.is_pending) for one in commits]
        for group, commits in reading.found.items()
    }


def test_of_a_pending_commit_the_last_stable_one_is_read_and_of_no_other_group_twice() -> None:
    manager = Coordinators({"a": [(1, 5, False, 0), (0, 7, True, 0)], "b": [(0, 3, False, 0)]})
    assert told(read(manager, "a", "b")) == {"a": [(0, 7, True), (1, 5, False)], "b": [(0, 3, False)]}
    assert manager.fetched == [(["a", "b"], True), (["a"], False)]


def test_a_group_with_an_error_keeps_no_other_from_being_read() -> None:
    committed = {"a": [(0, 7, False, 0)], "lost": [(0, 7, False, 0), (1, 7, False, LOST)]}
    of_groups, undisclosed = {"denied": NOT_ALLOWED}, {"away": NO_COORDINATOR, "secret": NOT_ALLOWED}
    manager = Coordinators(committed, of_groups, undisclosed)
    reading = read(manager, "a", "lost", "denied", "away", "secret", "none")
    assert told(reading) == {"a": [(0, 7, False)], "none": []}
    assert reading.unread == {
        "away": UnreadGroup(GroupEvent.UNAVAILABLE, "COORDINATOR_NOT_AVAILABLE"),
        "denied": UnreadGroup(GroupEvent.HIDDEN, "GROUP_AUTHORIZATION_FAILED"),
        "lost": UnreadGroup(GroupEvent.UNAVAILABLE, "KAFKA_STORAGE_ERROR"),
        "secret": UnreadGroup(GroupEvent.HIDDEN, "GROUP_AUTHORIZATION_FAILED"),
    }


def test_a_commit_of_a_topic_that_is_not_there_any_more_and_one_without_an_offset_are_none() -> None:
    manager = Coordinators({"a": [(0, 7, False, NO_TOPIC), (1, -1, False, 0), (2, 0, False, 0)]})
    assert told(read(manager, "a")) == {"a": [(2, 0, False)]}


def test_where_brokers_report_no_share_partition_offsets_groups_are_unavailable_and_say_why() -> None:
    manager = Coordinators({})
    reading = asyncio.run(_awaited(group_readings.read_share_offsets, manager, ("a", "b")))
    assert reading.found == {}
    unsupported = UnreadGroup(GroupEvent.UNAVAILABLE, "UNSUPPORTED_VERSION")
    assert reading.unread == {"a": unsupported, "b": unsupported}
