"""Requests about groups: which there are, what their coordinators say, and offsets for those without members."""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import errors
from kafka.errors import KafkaError
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import (
    ACLOperation,
    DeleteGroupsRequest,
    DescribeClusterRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import (
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from ledger.clock import Clock
from ledger.errors import ClusterUnavailableError, MirrorLedgerError, PreconditionError, Trouble
from ledger.facts.groups import MOVING, CommitRefusal, GroupEvent, NewCommit, ShareOffset, UnreadGroup
from ledger.facts.syncs import Checkpoint, topic_id_text
from ledger.kafka.cluster import CommitsAnswer, GroupListing, Place, ShareOffsetsAnswer
from ledger.kafka.connection import ClusterConnection
from ledger.kafka.messages import message
from ledger.kafka.spoken import (
    FIND_COORDINATOR,
    FIND_COORDINATORS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FETCH_OF_MANY,
)
from ledger.kafka.topics import (
    ABSENT_TOPIC,
    brokers,
    error_of,
    known_epoch,
    listed,
    metadata,
    parts,
    require,
    under_topics,
)

_GROUP_COORDINATOR = 0
_NOT_PERMITTED = errors.GroupAuthorizationFailedError.errno
_NO_MEMBER = -1  # generation of a commit by nobody of the group
_ONE_BY_ONE_AT_ONCE = 20  # a connection takes 50 requests at once
_NOT_NOW = (
    errors.CoordinatorLoadInProgressError,
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
)
UNSTABLE = errors.UnstableOffsetCommitError.errno
"""A transaction that is open has committed another offset."""
_NO_SUCH_GROUP = errors.GroupIdNotFoundError.errno
_SUBSCRIBED = errors.GroupSubscribedToTopicError.errno
Refused = dict[Place, CommitRefusal]
"""By topic and partition why an offset was not taken."""
_ShareOffsetsRequest = message("DescribeShareGroupOffsetsRequest")
_ShareOffsetsResponse = message("DescribeShareGroupOffsetsResponse")
_AlterShareOffsetsRequest = message("AlterShareGroupOffsetsRequest")
_AlterShareOffsetsResponse = message("AlterShareGroupOffsetsResponse")
_BY_INSTANCE = ""
"""Stands for the member id where a member is named by its instance id."""
_REFUSALS = {
    errors.GroupAuthorizationFailedError.errno: CommitRefusal.GROUP_DENIED,
    errors.TopicAuthorizationFailedError.errno: CommitRefusal.TOPIC_DENIED,
    errors.UnknownMemberIdError.errno: CommitRefusal.HAS_MEMBERS,
    errors.IllegalGenerationError.errno: CommitRefusal.HAS_MEMBERS,
    errors.StaleMemberEpochError.errno: CommitRefusal.HAS_MEMBERS,
    errors.RebalanceInProgressError.errno: CommitRefusal.HAS_MEMBERS,
    errors.NonEmptyGroupError.errno: CommitRefusal.HAS_MEMBERS,
    _SUBSCRIBED: CommitRefusal.HAS_MEMBERS,
    errors.UnknownTopicOrPartitionError.errno: CommitRefusal.NO_TOPIC,
}


async def listed_groups(manager: KafkaConnectionManager) -> list[GroupListing]:
    """Every group that some broker coordinates."""
    # Not by `list_groups`, which waits for one broker after the other.
    sent = [manager.send(ListGroupsRequest(), node_id=node) for node in await brokers(manager)]
    listed: dict[str, GroupListing] = {}
    for pending in sent:
        answer = await pending
        require(answer.error_code, None)
        for group in answer.groups:
            group_type, state = (group.group_type or "").lower(), group.group_state
            listed[group.group_id] = GroupListing(
                group.group_id, group_type or None, state or None, group.protocol_type or None
            )
    return list(listed.values())


async def coordinators(
    manager: KafkaConnectionManager, groups: Sequence[str]
) -> tuple[dict[int, list[str]], dict[str, int]]:
    """Groups by the node that coordinates them; by group the error code where none was named."""
    await metadata(manager, [])
    by_coordinator: dict[int, list[str]] = defaultdict(list)
    undisclosed: dict[str, int] = {}
    for found in await found_coordinators(manager, _GROUP_COORDINATOR, groups):
        if found.error_code:
            undisclosed[found.key] = found.error_code
        else:
            by_coordinator[found.node_id].append(found.key)
    return by_coordinator, undisclosed


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Which node coordinates what has this key; with an error code where none was named."""

    key: str
    node_id: int
    error_code: int
    error_message: str | None


async def found_coordinators(
    manager: KafkaConnectionManager, key_type: int, keys: Sequence[str]
) -> list[Coordinator]:
    """Of groups, or of transactional ids; one by one from brokers that are not asked about many."""
    try:
        request = FindCoordinatorRequest(
            key_type=key_type, coordinator_keys=list(keys), **FIND_COORDINATORS.bounds
        )
        answer = await manager.send(request)
    except errors.IncompatibleBrokerVersion:
        bounds = FIND_COORDINATOR.before(FIND_COORDINATORS.oldest).bounds
        requests = {key: FindCoordinatorRequest(key_type=key_type, key=key, **bounds) for key in keys}
        return [
            Coordinator(key, one.node_id, one.error_code, one.error_message)
            for key, one in await _answered_each(manager, None, requests)
        ]
    return [
        Coordinator(one.key, one.node_id, one.error_code, one.error_message) for one in answer.coordinators
    ]


async def _answered_each(
    manager: KafkaConnectionManager, node: int | None, requests: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """What a node answers to a request about each, a few under way at once."""
    found = []
    for some in parts(list(requests), _ONE_BY_ONE_AT_ONCE):
        sent = [(key, manager.send(requests[key], node_id=node)) for key in some]
        found += [(key, await pending) for key, pending in sent]
    return found


async def answered_groups(
    manager: KafkaConnectionManager,
    by_coordinator: Mapping[int, list[str]],
    request: Callable[[list[str]], Any],
) -> list[Any]:
    """The groups of the responses, each node asked about those that it coordinates, all nodes at once."""
    sent = [manager.send(request(names), node_id=node) for node, names in by_coordinator.items() if names]
    return [group for pending in sent for group in (await pending).groups]


async def described_groups(
    manager: KafkaConnectionManager, by_coordinator: Mapping[int, list[str]]
) -> list[Any]:
    """The description of each group, with an error code of its own."""
    # Not by `describe_groups`, which raises for all where one's coordinator is not disclosed.
    return await answered_groups(manager, by_coordinator, lambda names: DescribeGroupsRequest(groups=names))


async def hidden_groups(manager: KafkaConnectionManager, groups: Sequence[str]) -> frozenset[str]:
    """Groups that may not be described, whether they exist or not."""
    described = await described_groups(manager, await _permitted_coordinators(manager, groups))
    return frozenset(groups) - {group.group_id for group in described if group.error_code != _NOT_PERMITTED}


async def _permitted_coordinators(
    manager: KafkaConnectionManager, groups: Sequence[str]
) -> dict[int, list[str]]:
    """Groups by the node that coordinates them, but for those that may not be described; other errors are raised."""
    by_coordinator, undisclosed = await coordinators(manager, groups)
    for group, code in undisclosed.items():
        if code != _NOT_PERMITTED:
            require(code, group)
    return by_coordinator


async def offset_fetches(
    manager: KafkaConnectionManager, by_coordinator: Mapping[int, list[str]], *, require_stable: bool
) -> list[Any]:
    """The commits of each group, with error codes of their own."""
    # Not by `list_group_offsets`, which raises for all at the first group or partition with an error.
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    try:
        return await answered_groups(
            manager,
            by_coordinator,
            lambda names: OffsetFetchRequest(
                groups=[of_group(group_id=name, topics=None) for name in names],
                require_stable=require_stable,
                **OFFSET_FETCH_OF_MANY.bounds,
            ),
        )
    except errors.IncompatibleBrokerVersion:
        return [
            one
            for node, names in by_coordinator.items()
            for one in await _offset_fetches_of_each(manager, node, names, require_stable=require_stable)
        ]


@dataclass(frozen=True, slots=True)
class _FetchedGroup:
    """What a broker before 3.0 answers of one group, as later ones answer of each of many."""

    group_id: str
    topics: list[Any]
    error_code: int


async def _offset_fetches_of_each(
    manager: KafkaConnectionManager, node: int, groups: Sequence[str], *, require_stable: bool
) -> list[_FetchedGroup]:
    bounds = OFFSET_FETCH.before(OFFSET_FETCH_OF_MANY.oldest).bounds
    requests = {
        name: OffsetFetchRequest(group_id=name, topics=None, require_stable=require_stable, **bounds)
        for name in groups
    }
    return [
        _FetchedGroup(name, answer.topics, answer.error_code)
        for name, answer in await _answered_each(manager, node, requests)
    ]


async def share_fetches(
    manager: KafkaConnectionManager, by_coordinator: Mapping[int, list[str]]
) -> list[Any]:
    """The share-partition start offsets of each group, with error codes of their own."""
    of_group = _ShareOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    return await answered_groups(
        manager,
        by_coordinator,
        lambda names: _ShareOffsetsRequest(groups=[of_group(group_id=name, topics=None) for name in names]),
    )


def entries(group: Any, error_code: int) -> Iterable[tuple[Any, Any]]:
    """Topics and partitions of an answer about a group that have this error code."""
    return (
        (topic, entry)
        for topic in group.topics
        for entry in topic.partitions
        if entry.error_code == error_code
    )


async def set_commits(
    manager: KafkaConnectionManager, commits: Mapping[str, Sequence[NewCommit]]
) -> dict[str, Refused | errors.KafkaError]:
    """By group what was refused of a commit by nobody of it, which only one without members takes; or why it failed.

    Coordinators are asked right before for what may not be replaced: brokers do not compare. All groups at once.
    """
    # Not by `alter_group_offsets`, which keeps asking a coordinator that the group has moved away from.
    by_coordinator, undisclosed = await coordinators(manager, list(commits))
    done: dict[str, Refused | errors.KafkaError] = {
        group: dict.fromkeys(_places(commits[group]), CommitRefusal.GROUP_DENIED)
        if code == _NOT_PERMITTED
        else error_of(code, group)
        for group, code in undisclosed.items()
    }
    compared = {
        node: [group for group in groups if any(one.replaces is not None for one in commits[group])]
        for node, groups in by_coordinator.items()
    }
    fetched = await offset_fetches(manager, compared, require_stable=True)
    found = {answer.group_id: answer for answer in fetched}
    sent: dict[str, tuple[Refused, Any]] = {}
    for node, groups in by_coordinator.items():
        for group in groups:
            try:
                moved = _moved_since(commits[group], found[group]) if group in found else {}
            except errors.KafkaError as error:
                done[group] = error
                continue
            done[group] = moved
            if unmoved := _others(commits[group], moved):
                sent[group] = moved, manager.send(_offset_commit(group, unmoved), node_id=node)
    for group, (moved, pending) in sent.items():
        try:
            codes = _codes((topic.name, topic) for topic in (await pending).topics)
            done[group] = moved | _refused(group, codes)
        except errors.KafkaError as error:
            done[group] = error
    return done


async def set_commits_of_group(
    manager: KafkaConnectionManager, group: str, commits: Sequence[NewCommit]
) -> Refused:
    """The same of one group; raises what it failed with."""
    done = (await set_commits(manager, {group: commits}))[group]
    if isinstance(done, errors.KafkaError):
        raise done
    return done


def _places(commits: Sequence[NewCommit]) -> list[Place]:
    return [(commit.topic, commit.partition) for commit in commits]


def _moved_since(commits: Sequence[NewCommit], found: Any) -> Refused:
    """Of a group's commits those that may not replace what its coordinator has."""
    _require_shown(found)
    there = {(topic.name, one.partition_index): one.committed_offset for topic, one in entries(found, 0)}
    pending = {(topic.name, one.partition_index) for topic, one in entries(found, UNSTABLE)}
    return _moved(commits, there, pending)


def _require_shown(found: Any) -> None:
    """Raise where a group's commits are not shown, but for reasons for which it takes none either."""
    if found.error_code not in (_NOT_PERMITTED, _NO_SUCH_GROUP):
        require(found.error_code, found.group_id)


def _moved(commits: Sequence[NewCommit], there: Mapping[Place, int], pending: Collection[Place]) -> Refused:
    """Places that have another commit than may be replaced, or are about to; a negative offset is none."""
    found: Refused = {}
    for commit in commits:
        at = commit.topic, commit.partition
        offset = there.get(at, -1)
        if not commit.may_replace(None if offset < 0 else offset) or (
            commit.replaces is not None and at in pending
        ):
            found[at] = CommitRefusal.MOVED
    return found


def _others(commits: Sequence[NewCommit], but: Collection[Place]) -> list[NewCommit]:
    return [commit for commit in commits if (commit.topic, commit.partition) not in but]


async def delete_commits(manager: KafkaConnectionManager, group: str, places: Sequence[Place]) -> Refused:
    """What was refused of deleting commits, which only a group without members lets go."""
    by_coordinator = await _permitted_coordinators(manager, [group])
    if not by_coordinator:
        return dict.fromkeys(places, CommitRefusal.GROUP_DENIED)
    [node] = by_coordinator
    answer = await manager.send(_offset_delete(group, places), node_id=node)
    if answer.error_code == _NO_SUCH_GROUP:
        return {}
    if answer.error_code:
        return _refused(group, dict.fromkeys(places, answer.error_code))
    codes = _codes((topic.name, topic) for topic in answer.topics)
    refused = _refused(group, codes)
    # A partition that is not there has no commit either.
    return {at: why for at, why in refused.items() if why is not CommitRefusal.NO_TOPIC}


async def delete_groups(manager: KafkaConnectionManager, groups: Sequence[str]) -> dict[str, str]:
    """By group why it was not deleted, as the broker names the error; that there was none is no error."""
    by_coordinator, undisclosed = await coordinators(manager, groups)
    codes = dict(undisclosed)
    sent = [
        manager.send(DeleteGroupsRequest(groups_names=names), node_id=node)
        for node, names in by_coordinator.items()
    ]
    for pending in sent:
        codes |= {one.group_id: one.error_code for one in (await pending).results}
    return {
        group: type(error_of(code, group)).__name__
        for group, code in codes.items()
        if code not in (0, _NO_SUCH_GROUP)
    }


async def static_members(
    manager: KafkaConnectionManager, groups: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """By group the instance ids of its members, of groups that have such."""
    by_coordinator, _ = await coordinators(manager, groups)
    found = {
        group.group_id: tuple(sorted(one.group_instance_id for one in group.members if one.group_instance_id))
        for group in await described_groups(manager, by_coordinator)
    }
    return {group: instances for group, instances in sorted(found.items()) if instances}


async def remove_static_members(
    manager: KafkaConnectionManager, group: str, instances: Sequence[str]
) -> dict[str, str]:
    """By instance id why it was not removed, as the broker names the error; that it is no member is no error."""
    by_coordinator, undisclosed = await coordinators(manager, [group])
    for code in undisclosed.values():
        require(code, group)
    [node] = by_coordinator
    member = LeaveGroupRequest.MemberIdentity
    members = [member(member_id=_BY_INSTANCE, group_instance_id=one) for one in instances]
    request = LeaveGroupRequest(group_id=group, members=members, min_version=3)
    answer = await manager.send(request, node_id=node)
    require(answer.error_code, group)
    return {
        one.group_instance_id: type(error_of(one.error_code, group)).__name__
        for one in answer.members
        if one.error_code not in (0, errors.UnknownMemberIdError.errno)
    }


async def set_share_offsets(
    manager: KafkaConnectionManager, group: str, offsets: Sequence[NewCommit]
) -> Refused:
    """What was refused of new share-partition start offsets, which only a share group without members takes."""
    by_coordinator = await _permitted_coordinators(manager, [group])
    if not by_coordinator:
        return dict.fromkeys(_places(offsets), CommitRefusal.GROUP_DENIED)
    [node] = by_coordinator
    moved: Refused = {}
    if any(one.replaces is not None for one in offsets):
        [found] = await share_fetches(manager, by_coordinator)
        _require_shown(found)
        there = {
            (topic.topic_name, one.partition_index): one.start_offset for topic, one in entries(found, 0)
        }
        moved = _moved(offsets, there, ())
    if not (unmoved := _others(offsets, moved)):
        return moved
    answer = await manager.send(_share_offsets(group, unmoved), node_id=node)
    if answer.error_code:
        return moved | _refused(group, {(one.topic, one.partition): answer.error_code for one in unmoved})
    return moved | _refused(group, _codes((topic.topic_name, topic) for topic in answer.responses))


def _codes(topics: Iterable[tuple[str, Any]]) -> dict[Place, int]:
    return {
        (name, entry.partition_index): entry.error_code
        for name, topic in topics
        for entry in topic.partitions
    }


def _refused(group: str, codes: Mapping[Place, int]) -> Refused:
    """By topic and partition why not; raises where the coordinator asks to wait."""
    for code in codes.values():
        if errors.for_code(code) in _NOT_NOW:
            require(code, group)
    return {at: _REFUSALS.get(code, CommitRefusal.OTHER) for at, code in codes.items() if code}


def _share_offsets(group: str, offsets: Sequence[NewCommit]) -> Any:
    topic = _AlterShareOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    partition = topic.AlterShareGroupOffsetsRequestPartition
    entries = (
        (one.topic, partition(partition_index=one.partition, start_offset=one.offset)) for one in offsets
    )
    return _AlterShareOffsetsRequest(group_id=group, topics=under_topics(entries, topic, name="topic_name"))


def _offset_delete(group: str, places: Sequence[Place]) -> OffsetDeleteRequest:
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = topic.OffsetDeleteRequestPartition
    entries = ((name, partition(partition_index=number)) for name, number in places)
    return OffsetDeleteRequest(group_id=group, topics=under_topics(entries, topic))


def _offset_commit(group: str, commits: Sequence[NewCommit]) -> OffsetCommitRequest:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    entries = (
        (
            commit.topic,
            topic.OffsetCommitRequestPartition(
                partition_index=commit.partition,
                committed_offset=commit.offset,
                committed_leader_epoch=-1,
                committed_metadata=commit.metadata or "",
            ),
        )
        for commit in commits
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NO_MEMBER,
        member_id="",
        group_instance_id=None,
        topics=under_topics(entries, topic),
        **OFFSET_COMMIT.bounds,
    )


# Group readings -----------------------------------------------------------------------------------
# What groups have committed, or share-partition start offsets; one group that is not read keeps no other
# from it.
#
# No group is left out in silence: each reading says of which groups nothing was read, and why.


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
    try:
        answer = await manager.send(DescribeClusterRequest(include_cluster_authorized_operations=True))
    except errors.IncompatibleBrokerVersion:
        return False
    return answer.error_code == 0 and ACLOperation.DESCRIBE.value in (answer.authorized_operations or ())


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


def _commits_of(group: Any, pending: set[Place]) -> list[Commit]:
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


# Cluster groups -----------------------------------------------------------------------------------
# The groups of one cluster: the part of `ClusterAdmin` that is about them, on real brokers.


_GROUPS_AT_ONCE = 500
_PARTS_OF_TIMEOUT = 3  # groups that no coordinator answers for hold up the others for one of these
_POLL_S = 0.05


class KafkaGroups:
    """Base of `KafkaAdmin`."""

    def __init__(self, alias: str, connection: ClusterConnection, clock: Clock, *, timeout_s: float) -> None:
        self.alias = alias
        self.connection = connection
        self._clock = clock
        self._timeout_s = timeout_s

    def groups(self) -> list[GroupListing]:
        listed = self.connection.run("list consumer groups", listed_groups)
        return sorted(listed, key=lambda group: group.group_id)

    def static_members(self, groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for some in parts(groups, _GROUPS_AT_ONCE):
            found |= self.connection.run(f"describe {listed(some, 'group')}", static_members, some)
        return found

    def remove_static_members(self, group: str, instances: Sequence[str]) -> dict[str, str]:
        """Remove members by instance id, whatever their consumers do; by instance why one was not."""
        return self.connection.run(
            f"remove members of group {group}", remove_static_members, group, instances
        )

    def lists_all_groups(self) -> bool:
        operation = "ask whether it may describe every group"
        return self.connection.run(operation, lists_all_groups)

    def commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        answer = self.group_commits(groups, topic_ids=topic_ids)
        for group, why in answer.refused.items():
            raise self._not_read(group, why)
        return answer.read

    def group_commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> CommitsAnswer:
        answer, names = CommitsAnswer([], {}), [group.group_id for group in groups]
        for reading in self._readings("read the committed offsets of", read_commits, names):
            answer.refused.update(reading.unread)
            read_at_ms = self._clock.now_ms()
            answer.read.extend(
                self._checkpoint(group, commit, topic_ids, read_at_ms)
                for group in groups
                for commit in reading.found.get(group.group_id, [])
            )
        return answer

    def share_offsets(self, groups: Sequence[str]) -> ShareOffsetsAnswer:
        answer = ShareOffsetsAnswer([], {})
        for reading in self._readings("describe the share-partition offsets of", read_share_offsets, groups):
            answer.refused.update(reading.unread)
            read_at_ms = self._clock.now_ms()
            answer.read.extend(
                self._share_offset(group, topic, entry, read_at_ms)
                for group, entries in reading.found.items()
                for topic, entry in entries
            )
        return answer

    def unlisted_groups(self, groups: Sequence[str]) -> dict[str, UnreadGroup]:
        found: dict[str, UnreadGroup] = {}
        for reading in self._readings("find", unlisted_groups, groups):
            found |= reading.unread
        deleted = {group for group, why in found.items() if why.event is GroupEvent.GONE}
        if deleted:
            # While coordinators move no broker may list a group, and only classic groups are found by name then.
            listed_again = deleted & {group.group_id for group in self.groups()}
            found |= dict.fromkeys(listed_again, UnreadGroup(GroupEvent.UNAVAILABLE, MOVING))
        return found

    def dead_groups(self, groups: Sequence[str]) -> frozenset[str]:
        found = self.unlisted_groups(groups)
        for group, why in found.items():
            if why.event is GroupEvent.UNAVAILABLE:
                raise self._not_read(group, why)
        return frozenset(group for group, why in found.items() if why.event is GroupEvent.GONE)

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[Place, CommitRefusal]:
        operation = f"set the committed offsets of group {group}"
        return self.connection.run(operation, set_commits_of_group, group, commits)

    def set_commits_of_groups(
        self, commits: Mapping[str, Sequence[NewCommit]]
    ) -> dict[str, dict[Place, CommitRefusal]]:
        operation = f"set the committed offsets of {listed(list(commits), 'group')}"
        done = self.connection.run(operation, set_commits, commits)
        return {
            group: self.set_commits(group, commits[group]) if isinstance(refused, KafkaError) else refused
            for group, refused in done.items()
        }

    def delete_commits(self, group: str, places: Sequence[Place]) -> dict[Place, CommitRefusal]:
        operation = f"delete committed offsets of group {group}"
        return self.connection.run(operation, delete_commits, group, places)

    def delete_groups(self, groups: Sequence[str]) -> dict[str, str]:
        """Delete groups without members, with all that they have committed; by group why one was not."""
        return self.connection.run(f"delete {listed(list(groups), 'group')}", delete_groups, groups)

    def set_share_offsets(self, group: str, offsets: Sequence[NewCommit]) -> dict[Place, CommitRefusal]:
        operation = f"set the share-partition start offsets of group {group}"
        return self.connection.run(operation, set_share_offsets, group, offsets)

    def _readings(self, doing: str, read: Read, groups: Sequence[str]) -> Iterator[Reading]:
        """Portion by portion. Coordinators that move or load are asked again for a while."""
        for some in parts(groups, _GROUPS_AT_ONCE):
            operation = f"{doing} {listed(some, 'group')}"
            patient_until = time.monotonic() + self._timeout_s / _PARTS_OF_TIMEOUT
            reading = self.connection.run(operation, read, some)
            while reading.unavailable and time.monotonic() < patient_until:
                time.sleep(_POLL_S)
                reading = reading.repeated(self.connection.run(operation, read, reading.unavailable))
            yield reading

    def _not_read(self, group: str, why: UnreadGroup) -> MirrorLedgerError:
        if why.event is GroupEvent.HIDDEN:
            return PreconditionError(
                f"cluster {self.alias} does not allow this principal to read the committed offsets of group {group}: "
                f"{why.reason}; not done",
                trouble=Trouble.NOT_ALLOWED,
            )
        return ClusterUnavailableError(
            f"no coordinator of cluster {self.alias} answers for group {group}: {why.reason}; not done"
        )

    def _checkpoint(
        self,
        group: GroupListing,
        commit: Commit,
        topic_ids: Mapping[str, str],
        read_at_ms: int,
    ) -> Checkpoint:
        topic, committed = commit.topic, commit.entry
        return Checkpoint(
            cluster=self.alias,
            group_id=group.group_id,
            group_type=group.group_type,
            group_state=group.group_state,
            topic=topic,
            topic_id=topic_ids.get(topic),
            partition=committed.partition_index,
            committed_offset=committed.committed_offset,
            leader_epoch=known_epoch(committed.committed_leader_epoch),
            metadata=committed.metadata,
            read_at_ms=read_at_ms,
            transaction_pending=commit.is_pending,
        )

    def _share_offset(self, group: str, topic: Any, entry: Any, read_at_ms: int) -> ShareOffset:
        return ShareOffset(
            cluster=self.alias,
            group_id=group,
            topic=topic.topic_name,
            topic_id=topic_id_text(topic.topic_id.bytes),
            partition=entry.partition_index,
            start_offset=_known(entry.start_offset),
            leader_epoch=known_epoch(entry.leader_epoch),
            lag=_known(entry.lag),
            read_at_ms=read_at_ms,
        )


def _known(offset: int) -> int | None:
    return None if offset < 0 else offset
