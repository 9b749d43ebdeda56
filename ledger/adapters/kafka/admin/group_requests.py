"""Requests about groups: which there are, what their coordinators say, and offsets for those without members."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from ledger.adapters.kafka.admin.answers import require
from ledger.adapters.kafka.admin.messages import message
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.domain.group_commits import CommitRefusal, NewCommit
from ledger.ports.clusters import GroupListing

_GROUP_COORDINATOR = 0
_NOT_PERMITTED = errors.GroupAuthorizationFailedError.errno
_NO_MEMBER = -1  # generation of a commit by nobody of the group
_BY_NAMES = 9  # the last version of OffsetCommit that names topics, not ids
_NOT_NOW = (
    errors.CoordinatorLoadInProgressError,
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
)
_NO_SUCH_GROUP = errors.GroupIdNotFoundError.errno
_SUBSCRIBED = errors.GroupSubscribedToTopicError.errno
_AlterShareOffsetsRequest = message("AlterShareGroupOffsetsRequest")
_AlterShareOffsetsResponse = message("AlterShareGroupOffsetsResponse")
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
    brokers = (await metadata(manager, [])).brokers
    sent = [manager.send(ListGroupsRequest(), node_id=broker.node_id) for broker in brokers]
    listed: dict[str, GroupListing] = {}
    for pending in sent:
        answer = await pending
        require(answer.error_code, None)
        listed |= {group.group_id: _group_listing(group) for group in answer.groups}
    return list(listed.values())


def _group_listing(group: Any) -> GroupListing:
    return GroupListing(
        group.group_id,
        (group.group_type or "").lower() or None,
        group.group_state or None,
        group.protocol_type or None,
    )


async def coordinators(
    manager: KafkaConnectionManager, groups: Sequence[str]
) -> tuple[dict[int, list[str]], dict[str, int]]:
    """Groups by the node that coordinates them; by group the error code where none was named."""
    await metadata(manager, [])
    request = FindCoordinatorRequest(
        key_type=_GROUP_COORDINATOR, coordinator_keys=list(groups), min_version=4
    )
    by_coordinator: dict[int, list[str]] = defaultdict(list)
    undisclosed: dict[str, int] = {}
    for found in (await manager.send(request)).coordinators:
        if found.error_code:
            undisclosed[found.key] = found.error_code
        else:
            by_coordinator[found.node_id].append(found.key)
    return by_coordinator, undisclosed


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


async def set_commits(
    manager: KafkaConnectionManager, group: str, commits: Sequence[NewCommit]
) -> dict[tuple[str, int], CommitRefusal]:
    """What was refused of a commit by nobody of the group, which only one without members takes."""
    # Not by `alter_group_offsets`, which keeps asking a coordinator that the group has moved away from.
    by_coordinator = await _permitted_coordinators(manager, [group])
    if not by_coordinator:
        return {(commit.topic, commit.partition): CommitRefusal.GROUP_DENIED for commit in commits}
    [node] = by_coordinator
    answer = await manager.send(_offset_commit(group, commits), node_id=node)
    return _refused(group, _codes((topic.name, topic) for topic in answer.topics))


async def delete_commits(
    manager: KafkaConnectionManager, group: str, places: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], CommitRefusal]:
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


async def set_share_offsets(
    manager: KafkaConnectionManager, group: str, offsets: Sequence[NewCommit]
) -> dict[tuple[str, int], CommitRefusal]:
    """What was refused of new share-partition start offsets, which only a share group without members takes."""
    by_coordinator = await _permitted_coordinators(manager, [group])
    if not by_coordinator:
        return {(one.topic, one.partition): CommitRefusal.GROUP_DENIED for one in offsets}
    [node] = by_coordinator
    answer = await manager.send(_share_offsets(group, offsets), node_id=node)
    if answer.error_code:
        return _refused(group, {(one.topic, one.partition): answer.error_code for one in offsets})
    return _refused(group, _codes((topic.topic_name, topic) for topic in answer.responses))


def _codes(topics: Iterable[tuple[str, Any]]) -> dict[tuple[str, int], int]:
    return {
        (name, entry.partition_index): entry.error_code
        for name, topic in topics
        for entry in topic.partitions
    }


def _refused(group: str, codes: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], CommitRefusal]:
    """By topic and partition why not; raises where the coordinator asks to wait."""
    for code in codes.values():
        if errors.for_code(code) in _NOT_NOW:
            require(code, group)
    return {at: _REFUSALS.get(code, CommitRefusal.OTHER) for at, code in codes.items() if code}


def _share_offsets(group: str, offsets: Sequence[NewCommit]) -> Any:
    of_topic = _AlterShareOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    of_partition = of_topic.AlterShareGroupOffsetsRequestPartition
    by_topic = defaultdict(list)
    for one in offsets:
        by_topic[one.topic].append(of_partition(partition_index=one.partition, start_offset=one.offset))
    topics = [of_topic(topic_name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return _AlterShareOffsetsRequest(group_id=group, topics=topics)


def _offset_delete(group: str, places: Sequence[tuple[str, int]]) -> OffsetDeleteRequest:
    of_topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    of_partition = of_topic.OffsetDeleteRequestPartition
    by_topic = defaultdict(list)
    for topic, partition in places:
        by_topic[topic].append(of_partition(partition_index=partition))
    topics = [of_topic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return OffsetDeleteRequest(group_id=group, topics=topics)


def _offset_commit(group: str, commits: Sequence[NewCommit]) -> OffsetCommitRequest:
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    of_partition = of_topic.OffsetCommitRequestPartition
    by_topic = defaultdict(list)
    for commit in commits:
        by_topic[commit.topic].append(
            of_partition(
                partition_index=commit.partition,
                committed_offset=commit.offset,
                committed_leader_epoch=-1,
                committed_metadata=commit.metadata or "",
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NO_MEMBER,
        member_id="",
        group_instance_id=None,
        topics=[of_topic(name=name, partitions=partitions) for name, partitions in by_topic.items()],
        max_version=_BY_NAMES,
    )
