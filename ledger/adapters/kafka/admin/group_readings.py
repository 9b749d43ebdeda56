"""What groups have committed, or share-partition start offsets; one group that is not read keeps no other from it.

No group is left out in silence: each reading says of which groups nothing was read, and why.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import ACLOperation, DescribeClusterRequest

from ledger.adapters.kafka.admin.answers import ABSENT_TOPIC
from ledger.adapters.kafka.admin.group_requests import (
    UNSTABLE,
    coordinators,
    described_groups,
    entries,
    offset_fetches,
    share_fetches,
)
from ledger.domain.groups import GroupEvent, UnreadGroup

_ABSENT_GROUP = (errors.GroupIdNotFoundError, errors.InvalidGroupIdError)
_DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Commit:
    """A partition's entry in an OffsetFetch response; `is_pending`: an open transaction has committed another one."""

    topic: str
    entry: Any
    is_pending: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """By group what was read, and why nothing was read of others; a group that does not exist is in neither."""

    found: dict[str, list[Any]] = field(default_factory=dict)
    unread: dict[str, UnreadGroup] = field(default_factory=dict)

    @property
    def unavailable(self) -> list[str]:
        return [name for name, why in self.unread.items() if why.event is GroupEvent.UNAVAILABLE]

    def repeated(self, again: "Reading") -> "Reading":
        """With what a second attempt read of the groups that were unavailable."""
        kept = {name: why for name, why in self.unread.items() if why.event is not GroupEvent.UNAVAILABLE}
        return Reading({**self.found, **again.found}, {**kept, **again.unread})


Read = Callable[[KafkaConnectionManager, Sequence[str]], Awaitable[Reading]]
"""One attempt to read these groups."""


async def lists_all_groups(manager: KafkaConnectionManager) -> bool:
    """Whether the listing has every group: who may describe the cluster is shown all of them."""
    answer = await manager.send(DescribeClusterRequest(include_cluster_authorized_operations=True))
    return ACLOperation.DESCRIBE.value in (answer.authorized_operations or ())


async def read_commits(manager: KafkaConnectionManager, groups: Sequence[str]) -> Reading:
    """`Commit`s by group: the last stable ones, whatever transactions that are open have committed since."""
    by_coordinator, unread = await _coordinators(manager, groups)
    stable = await offset_fetches(manager, by_coordinator, require_stable=True)
    pending = {
        group.group_id: {(topic.name, entry.partition_index) for topic, entry in entries(group, UNSTABLE)}
        for group in stable
    }
    unsettled = {
        node: [name for name in names if pending.get(name)] for node, names in by_coordinator.items()
    }
    settled = [group for group in stable if not pending[group.group_id]]
    reading = Reading({}, unread)
    for group in [*settled, *await offset_fetches(manager, unsettled, require_stable=False)]:
        _note(reading, group, _commits_of(group, pending[group.group_id]))
    return reading


def _commits_of(group: Any, pending: set[tuple[str, int]]) -> list[Commit]:
    commits = [
        Commit(topic.name, entry, (topic.name, entry.partition_index) in pending)
        for topic, entry in entries(group, 0)
        if entry.committed_offset >= 0
    ]
    return sorted(commits, key=lambda commit: (commit.topic, commit.entry.partition_index))


async def read_share_offsets(manager: KafkaConnectionManager, groups: Sequence[str]) -> Reading:
    """By group (topic entry, partition entry) of each partition that its coordinator knows."""
    by_coordinator, unread = await _coordinators(manager, groups)
    reading = Reading({}, unread)
    try:
        for group in await share_fetches(manager, by_coordinator):
            _note(reading, group, list(entries(group, 0)))
    except errors.UnsupportedVersionError:
        asked = [name for names in by_coordinator.values() for name in names]
        why = UnreadGroup(GroupEvent.UNAVAILABLE, errors.UnsupportedVersionError.message)
        reading.unread.update(dict.fromkeys(asked, why))
    return reading


async def unlisted_groups(manager: KafkaConnectionManager, groups: Sequence[str]) -> Reading:
    """What became of groups that were not listed, all in `unread`; what is not certainly deleted is hidden."""
    by_coordinator, unread = await _coordinators(manager, groups, GroupEvent.GONE)
    for group in await described_groups(manager, by_coordinator):
        why = _why_unread(group.error_code, GroupEvent.GONE)
        # Brokers call an unknown group dead without an error, or say since DescribeGroups 6 that it is not found.
        alive = UnreadGroup(GroupEvent.GONE if group.group_state == _DEAD else GroupEvent.HIDDEN)
        unread[group.group_id] = why or alive
    return Reading({}, unread)


async def _coordinators(
    manager: KafkaConnectionManager, groups: Sequence[str], absent: GroupEvent | None = None
) -> tuple[Mapping[int, list[str]], dict[str, UnreadGroup]]:
    """Groups by the node that coordinates them, and why others have none; `absent`: what no group at all is."""
    by_coordinator, undisclosed = await coordinators(manager, groups)
    unread = {name: _why_unread(code, absent) for name, code in undisclosed.items()}
    return by_coordinator, {name: why for name, why in unread.items() if why}


def _note(reading: Reading, group: Any, found: list[Any]) -> None:
    """A group as a whole, or a partition of it, that could not be read leaves nothing read of the group."""
    ignored = {0, UNSTABLE, *(kind.errno for kind in ABSENT_TOPIC)}
    codes = [entry.error_code for topic in group.topics for entry in topic.partitions]
    first = next((code for code in (group.error_code, *codes) if code not in ignored), 0)
    if first and (why := _why_unread(first, None)):
        reading.unread[group.group_id] = why
    elif not first:
        reading.found[group.group_id] = found


def _why_unread(error_code: int, absent: GroupEvent | None) -> UnreadGroup | None:
    """None: there is no error, or nothing is to be said of a group that does not exist."""
    kind: Any = errors.for_code(error_code)
    if kind is errors.NoError:
        return None
    if issubclass(kind, _ABSENT_GROUP):
        return None if absent is None else UnreadGroup(absent)
    if issubclass(kind, errors.AuthorizationError):
        return UnreadGroup(GroupEvent.HIDDEN, kind.message)
    return UnreadGroup(GroupEvent.UNAVAILABLE, kind.message)
