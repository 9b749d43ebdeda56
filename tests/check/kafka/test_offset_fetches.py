"""What answers of coordinators say of commits and share-partition offsets, one group and one partition at a time."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kafka import errors
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from ledger.facts.groups import GroupEvent, UnreadGroup
from ledger.kafka import groups as group_readings
from ledger.kafka.groups import Reading

UNSTABLE = errors.UnstableOffsetCommitError.errno
NO_COORDINATOR = errors.CoordinatorNotAvailableError.errno
DENIED = errors.GroupAuthorizationFailedError.errno
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
        return SimpleNamespace(key=name, node_id=1, error_code=self.undisclosed.get(name, 0))

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
    of_groups, undisclosed = {"denied": DENIED}, {"away": NO_COORDINATOR, "secret": DENIED}
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
