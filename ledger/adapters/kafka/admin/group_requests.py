"""Requests about consumer groups: which there are, and commits for those without members."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from ledger.adapters.kafka.admin.answers import is_present, require
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.domain.group_commits import CommitRefusal, NewCommit
from ledger.ports.clusters import GroupListing

_GROUP_COORDINATOR = 0
_ABSENT_GROUP = (errors.GroupIdNotFoundError, errors.InvalidGroupIdError)
_NOT_DESCRIBED = (errors.GroupAuthorizationFailedError,)
_NO_MEMBER = -1  # generation of a commit by nobody of the group
_BY_NAMES = 9  # the last version of OffsetCommit that names topics, not ids
_NOT_NOW = (
    errors.CoordinatorLoadInProgressError,
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
)
_REFUSALS = {
    errors.GroupAuthorizationFailedError.errno: CommitRefusal.GROUP_DENIED,
    errors.TopicAuthorizationFailedError.errno: CommitRefusal.TOPIC_DENIED,
    errors.UnknownMemberIdError.errno: CommitRefusal.HAS_MEMBERS,
    errors.IllegalGenerationError.errno: CommitRefusal.HAS_MEMBERS,
    errors.StaleMemberEpochError.errno: CommitRefusal.HAS_MEMBERS,
    errors.RebalanceInProgressError.errno: CommitRefusal.HAS_MEMBERS,
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


async def hidden_groups(manager: KafkaConnectionManager, groups: Sequence[str]) -> frozenset[str]:
    """Groups that may not be described, whether they exist or not."""
    described = await _described(manager, groups)
    return frozenset(groups) - {group.group_id for group in described if not _is_hidden(group)}


async def _described(manager: KafkaConnectionManager, groups: Sequence[str]) -> list[Any]:
    """The descriptions of groups; those whose coordinator is not disclosed are left out."""
    # Not by `describe_groups`, which raises for all where one's coordinator is not disclosed.
    by_coordinator = await _by_coordinator(manager, groups, _NOT_DESCRIBED)
    sent = [
        manager.send(DescribeGroupsRequest(groups=coordinated), node_id=node)
        for node, coordinated in by_coordinator.items()
    ]
    return [group for pending in sent for group in (await pending).groups]


def _is_hidden(group: Any) -> bool:
    return bool(group.error_code == errors.GroupAuthorizationFailedError.errno)


async def set_commits(
    manager: KafkaConnectionManager, group: str, commits: Sequence[NewCommit]
) -> dict[tuple[str, int], CommitRefusal]:
    """What was refused of a commit by nobody of the group, which only one without members takes."""
    # Not by `alter_group_offsets`, which keeps asking a coordinator that the group has moved away from.
    by_coordinator = await _by_coordinator(manager, [group], _NOT_DESCRIBED)
    if not by_coordinator:
        return {(commit.topic, commit.partition): CommitRefusal.GROUP_DENIED for commit in commits}
    [node] = by_coordinator
    answer = await manager.send(_offset_commit(group, commits), node_id=node)
    codes = {
        (topic.name, entry.partition_index): entry.error_code
        for topic in answer.topics
        for entry in topic.partitions
    }
    for code in codes.values():
        if errors.for_code(code) in _NOT_NOW:
            require(code, group)
    return {at: _REFUSALS.get(code, CommitRefusal.OTHER) for at, code in codes.items() if code}


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


async def _by_coordinator(
    manager: KafkaConnectionManager,
    groups: Sequence[str],
    absent: tuple[type[errors.KafkaError], ...] = _ABSENT_GROUP,
) -> dict[int, list[str]]:
    """Groups by the node that coordinates them; those with an error of `absent` are left out."""
    await metadata(manager, [])
    request = FindCoordinatorRequest(
        key_type=_GROUP_COORDINATOR, coordinator_keys=list(groups), min_version=4
    )
    by_coordinator = defaultdict(list)
    for found in (await manager.send(request)).coordinators:
        if is_present(found.error_code, found.key, absent):
            by_coordinator[found.node_id].append(found.key)
    return by_coordinator
