"""Requests about groups: which there are, what their coordinators say, and offsets for those without members."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from ledger.adapters.kafka.admin.answers import error_of, require
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
UNSTABLE = errors.UnstableOffsetCommitError.errno
"""A transaction that is open has committed another offset."""
_NO_SUCH_GROUP = errors.GroupIdNotFoundError.errno
_SUBSCRIBED = errors.GroupSubscribedToTopicError.errno
Refused = dict[tuple[str, int], CommitRefusal]
"""By topic and partition why an offset was not taken."""
_ShareOffsetsRequest = message("DescribeShareGroupOffsetsRequest")
_ShareOffsetsResponse = message("DescribeShareGroupOffsetsResponse")
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


async def offset_fetches(
    manager: KafkaConnectionManager, by_coordinator: Mapping[int, list[str]], *, require_stable: bool
) -> list[Any]:
    """The commits of each group, with error codes of their own."""
    # Not by `list_group_offsets`, which raises for all at the first group or partition with an error.
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    return await answered_groups(
        manager,
        by_coordinator,
        lambda names: OffsetFetchRequest(
            groups=[of_group(group_id=name, topics=None) for name in names],
            require_stable=require_stable,
            min_version=8,
            max_version=8,
        ),
    )


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


def _places(commits: Sequence[NewCommit]) -> list[tuple[str, int]]:
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


def _moved(
    commits: Sequence[NewCommit], there: Mapping[tuple[str, int], int], pending: Collection[tuple[str, int]]
) -> Refused:
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


def _others(commits: Sequence[NewCommit], but: Collection[tuple[str, int]]) -> list[NewCommit]:
    return [commit for commit in commits if (commit.topic, commit.partition) not in but]


async def delete_commits(
    manager: KafkaConnectionManager, group: str, places: Sequence[tuple[str, int]]
) -> Refused:
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


def _codes(topics: Iterable[tuple[str, Any]]) -> dict[tuple[str, int], int]:
    return {
        (name, entry.partition_index): entry.error_code
        for name, topic in topics
        for entry in topic.partitions
    }


def _refused(group: str, codes: Mapping[tuple[str, int], int]) -> Refused:
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
