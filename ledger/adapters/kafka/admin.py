"""Administration of one cluster: `ports.ClusterAdmin` on real brokers.

Nothing is opened before the first call. What the cluster does not know (a group that is gone, a topic
that was deleted meanwhile, a partition without a leader) is left out of an answer.
"""

import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from ledger.adapters.kafka.cluster_connection import ClusterConnection, require
from ledger.config import ClusterConfig
from ledger.domain.facts import Checkpoint
from ledger.domain.topic_ids import topic_id_text
from ledger.errors import ClusterUnavailableError, PreconditionError, ProtocolError
from ledger.ports import Clock, GroupListing, PartitionEnds, TopicDescription

DEFAULT_TIMEOUT_S = 9.0
_POLL_S = 0.05
_GROUPS_AT_ONCE = 500
_PARTITIONS_AT_ONCE = 5000

_TOPIC_RESOURCE = 2
_SET_ON_THE_TOPIC = 1
_GROUP_COORDINATOR = 0
_EARLIEST, _LATEST = -2, -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1

_ABSENT_TOPIC = (errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError)
_ABSENT_LEADER = (
    errors.LeaderNotAvailableError,
    errors.NotLeaderForPartitionError,
    errors.ReplicaNotAvailableError,
    errors.OffsetNotAvailableError,
    errors.KafkaStorageError,
    errors.FencedLeaderEpochError,
    errors.UnknownLeaderEpochError,
)
_ABSENT_GROUP = (errors.GroupIdNotFoundError, errors.InvalidGroupIdError)

Partition = tuple[str, int]


class KafkaAdmin:
    """`ports.ClusterAdmin` on a real cluster; safe to use from several threads."""

    def __init__(
        self,
        alias: str,
        cluster: ClusterConfig,
        clock: Clock,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.alias = alias
        self._clock = clock
        self._timeout_s = timeout_s
        self._connection = ClusterConnection(cluster, environ, timeout_s=timeout_s)

    def close(self) -> None:
        self._connection.close()

    def cluster_id(self) -> str:
        return str(self._connection.run("describe the cluster", _metadata_without_topics).cluster_id)

    def broker_count(self) -> int:
        return len(self._connection.run("describe the cluster", _metadata_without_topics).brokers)

    def allocate_producer_id(self) -> int:
        return self._connection.run("allocate a producer id", _allocate_producer_id)

    def topics(self) -> dict[str, TopicDescription]:
        return {topic.name: topic for topic in self._described(None)}

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        if not topics:
            return {}

        async def work(manager: KafkaConnectionManager) -> dict[str, dict[str, str]]:
            return await _configurations(manager, topics)

        return self._connection.run(f"describe the configuration of {_listed(topics)}", work)

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configuration: Mapping[str, str]
    ) -> None:
        request = CreateTopicsRequest(
            topics=[_creatable(name, partitions, replication_factor, configuration)],
            timeout_ms=int(self._timeout_s * 1000),
            validate_only=False,
        )

        async def work(manager: KafkaConnectionManager) -> None:
            answer = await manager.send(request, node_id=await _controller(manager))
            for topic in answer.topics:
                require(topic.error_code, topic.error_message)

        self._connection.run(f"create topic {name}", work)
        self._wait_for_partitions(name, partitions)

    def add_partitions(self, name: str, *, total: int) -> None:
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total, assignments=None)
        request = CreatePartitionsRequest(
            topics=[wanted], timeout_ms=int(self._timeout_s * 1000), validate_only=False
        )

        async def work(manager: KafkaConnectionManager) -> None:
            answer = await manager.send(request, node_id=await _controller(manager))
            for result in answer.results:
                require(result.error_code, result.error_message)

        self._connection.run(f"bring topic {name} to {total} partitions", work)
        self._wait_for_partitions(name, total)

    def ends(self, partitions: Sequence[Partition]) -> dict[Partition, PartitionEnds]:
        ends: dict[Partition, PartitionEnds] = {}
        for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
            ends |= self._ends(partitions[start : start + _PARTITIONS_AT_ONCE])
        return ends

    def offsets_at(self, partitions: Sequence[Partition], timestamp_ms: int) -> dict[Partition, int]:
        async def work(manager: KafkaConnectionManager) -> dict[Partition, int]:
            return await _offsets_at(manager, partitions, timestamp_ms)

        topics = sorted({topic for topic, _ in partitions})
        return self._connection.run(f"list offsets by time of {_listed(topics)}", work)

    def groups(self) -> list[GroupListing]:
        listed = self._connection.run("list consumer groups", _groups)
        return sorted(listed, key=lambda group: group.group_id)

    def commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        found: list[Checkpoint] = []
        for start in range(0, len(groups), _GROUPS_AT_ONCE):
            found += self._commits(groups[start : start + _GROUPS_AT_ONCE], topic_ids)
        return found

    def _described(self, names: Sequence[str] | None) -> list[TopicDescription]:
        async def work(manager: KafkaConnectionManager) -> Any:
            return await _metadata(manager, names)

        answer = self._connection.run(f"describe {_listed(names)}", work)
        return [_description(self.alias, topic) for topic in answer.topics if _is_described(topic)]

    def _wait_for_partitions(self, name: str, partitions: int) -> None:
        deadline = time.monotonic() + self._timeout_s
        while len(self._ends([(name, partition) for partition in range(partitions)])) < partitions:
            if time.monotonic() > deadline:
                raise ClusterUnavailableError(
                    f"cluster {self.alias} accepted topic {name} with {partitions} partitions but has no "
                    f"leaders for all of them after {self._timeout_s:g} s; nothing was written to it"
                )
            time.sleep(_POLL_S)

    def _ends(self, partitions: Sequence[Partition]) -> dict[Partition, PartitionEnds]:
        async def work(manager: KafkaConnectionManager) -> dict[Partition, PartitionEnds]:
            return await _partition_ends(manager, partitions)

        topics = sorted({topic for topic, _ in partitions})
        return self._connection.run(f"list offsets of {_listed(topics)}", work)

    def _commits(self, groups: Sequence[GroupListing], topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        names = [group.group_id for group in groups]

        async def work(manager: KafkaConnectionManager) -> dict[str, list["_Commit"]]:
            return await _committed_offsets(manager, names)

        found = self._connection.run(f"read the committed offsets of {_listed(names, 'group')}", work)
        read_at_ms = self._clock.now_ms()
        return [
            self._checkpoint(group, commit, topic_ids, read_at_ms)
            for group in groups
            for commit in found.get(group.group_id, [])
        ]

    def _checkpoint(
        self, group: GroupListing, commit: "_Commit", topic_ids: Mapping[str, str], read_at_ms: int
    ) -> Checkpoint:
        topic, committed = commit
        return Checkpoint(
            cluster=self.alias,
            group_id=group.group_id,
            group_type=group.group_type,
            group_state=group.group_state,
            topic=topic,
            topic_id=topic_ids.get(topic),
            partition=committed.partition_index,
            committed_offset=committed.committed_offset,
            leader_epoch=_known_epoch(committed.committed_leader_epoch),
            metadata=committed.metadata,
            read_at_ms=read_at_ms,
        )


_Commit = tuple[str, Any]
"""A topic name and the partition's entry in an OffsetFetch response."""


def _listed(names: Sequence[str] | None, kind: str = "topic") -> str:
    """`topic a, b, c and 4 more`, for messages."""
    if names is None:
        return f"all {kind}s"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{kind} {', '.join(names[:3])}{more}"


# Topics ----------------------------------------------------------------------------------------


async def _metadata(manager: KafkaConnectionManager, names: Sequence[str] | None) -> Any:
    """Topics and brokers as some broker sees them; the manager learns the brokers' addresses."""
    topic = MetadataRequest.MetadataRequestTopic
    topics = None if names is None else [topic(name=name) for name in names]
    answer = await manager.send(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    manager.cluster.update_metadata(answer)
    return answer


async def _metadata_without_topics(manager: KafkaConnectionManager) -> Any:
    return await _metadata(manager, [])


async def _controller(manager: KafkaConnectionManager) -> int:
    return int((await _metadata(manager, [])).controller_id)


def _is_described(topic: Any) -> bool:
    kind: Any = errors.for_code(topic.error_code)
    if issubclass(kind, (*_ABSENT_TOPIC, *_ABSENT_LEADER)):
        return False
    if kind is not errors.NoError:
        raise PreconditionError(f"topic {topic.name} cannot be described: {kind.description}; not done")
    return bool(topic.partitions)


def _description(alias: str, topic: Any) -> TopicDescription:
    if topic.topic_id is None or not topic.topic_id.int:
        raise PreconditionError(f"cluster {alias} gives no topic ids: Kafka 2.8 or later is needed; not done")
    return TopicDescription(
        name=topic.name,
        topic_id=topic_id_text(topic.topic_id.bytes),
        partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replica_nodes),
        internal=topic.is_internal,
    )


def _creatable(
    name: str, partitions: int, replication_factor: int, configuration: Mapping[str, str]
) -> CreateTopicsRequest.CreatableTopic:
    topic = CreateTopicsRequest.CreatableTopic
    return topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in configuration.items()],
    )


async def _configurations(
    manager: KafkaConnectionManager, topics: Sequence[str]
) -> dict[str, dict[str, str]]:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
            for name in topics
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    answer = await manager.send(request)
    return {
        result.resource_name: _own_settings(result.configs)
        for result in answer.results
        if _is_present(result.error_code, f"{result.resource_name}: {result.error_message}", _ABSENT_TOPIC)
    }


def _own_settings(configs: Sequence[Any]) -> dict[str, str]:
    own = [setting for setting in configs if setting.config_source == _SET_ON_THE_TOPIC]
    return {setting.name: setting.value for setting in own if setting.value is not None}


def _is_present(error_code: int, detail: str, absent: tuple[type[errors.KafkaError], ...]) -> bool:
    """Whether an entry holds an answer; codes other than those of absence are raised."""
    try:
        require(error_code, detail)
    except absent:
        return False
    return True


# Ends ------------------------------------------------------------------------------------------


async def _partition_ends(
    manager: KafkaConnectionManager, partitions: Sequence[Partition]
) -> dict[Partition, PartitionEnds]:
    """Three answers of each leader, asked for in one go; ends only grow between them."""
    by_leader = await _by_leader(manager, partitions)
    questions = ((_EARLIEST, _READ_UNCOMMITTED), (_LATEST, _READ_COMMITTED), (_LATEST, _READ_UNCOMMITTED))
    sent = [
        [manager.send(_list_offsets(led, *question), node_id=leader) for leader, led in by_leader.items()]
        for question in questions
    ]
    starting, stable, latest = [_offsets([await answer for answer in answers]) for answers in sent]
    return {
        partition: _ends_of(starting[partition], stable[partition], latest[partition])
        for partition in starting.keys() & stable.keys() & latest.keys()
    }


async def _offsets_at(
    manager: KafkaConnectionManager, partitions: Sequence[Partition], timestamp_ms: int
) -> dict[Partition, int]:
    by_leader = await _by_leader(manager, partitions)
    sent = [
        manager.send(_list_offsets(led, timestamp_ms, _READ_COMMITTED), node_id=leader)
        for leader, led in by_leader.items()
    ]
    found = _offsets([await answer for answer in sent])
    return {partition: entry.offset for partition, entry in found.items() if entry.offset >= 0}


async def _by_leader(
    manager: KafkaConnectionManager, partitions: Sequence[Partition]
) -> dict[int, list[Partition]]:
    wanted = set(partitions)
    answer = await _metadata(manager, sorted({topic for topic, _ in wanted}))
    by_leader = defaultdict(list)
    for topic in answer.topics:
        if issubclass(errors.for_code(topic.error_code), errors.AuthorizationError):
            require(topic.error_code, topic.name)
        for partition in topic.partitions:
            if (topic.name, partition.partition_index) in wanted and partition.leader_id >= 0:
                by_leader[partition.leader_id].append((topic.name, partition.partition_index))
    return by_leader


def _list_offsets(partitions: Sequence[Partition], timestamp: int, isolation: int) -> ListOffsetsRequest:
    topic = ListOffsetsRequest.ListOffsetsTopic
    by_topic = defaultdict(list)
    for name, index in partitions:
        by_topic[name].append(topic.ListOffsetsPartition(partition_index=index, timestamp=timestamp))
    return ListOffsetsRequest(
        isolation_level=isolation,
        topics=[topic(name=name, partitions=entries) for name, entries in by_topic.items()],
        min_version=4,
    )


def _offsets(answers: Sequence[Any]) -> dict[Partition, Any]:
    return {
        (topic.name, entry.partition_index): entry
        for answer in answers
        for topic in answer.topics
        for entry in topic.partitions
        if _is_present(entry.error_code, topic.name, (*_ABSENT_TOPIC, *_ABSENT_LEADER))
    }


def _ends_of(starting: Any, stable: Any, latest: Any) -> PartitionEnds:
    last_stable = max(starting.offset, stable.offset)
    return PartitionEnds(
        log_start=starting.offset,
        last_stable=last_stable,
        high_watermark=max(last_stable, latest.offset),
        leader_epoch=_known_epoch(latest.leader_epoch),
    )


def _known_epoch(epoch: int) -> int | None:
    return epoch if epoch >= 0 else None


# Groups ----------------------------------------------------------------------------------------


async def _groups(manager: KafkaConnectionManager) -> list[GroupListing]:
    brokers = (await _metadata(manager, [])).brokers
    sent = [manager.send(ListGroupsRequest(), node_id=broker.node_id) for broker in brokers]
    listed: dict[str, GroupListing] = {}
    for pending in sent:
        answer = await pending
        require(answer.error_code, None)
        listed |= {group.group_id: _group_listing(group) for group in answer.groups}
    return list(listed.values())


def _group_listing(group: Any) -> GroupListing:
    return GroupListing(group.group_id, (group.group_type or "").lower() or None, group.group_state or None)


async def _committed_offsets(
    manager: KafkaConnectionManager, groups: Sequence[str]
) -> dict[str, list[_Commit]]:
    by_coordinator = await _by_coordinator(manager, groups)
    sent = [
        manager.send(_offset_fetch(coordinated), node_id=node) for node, coordinated in by_coordinator.items()
    ]
    answers = [await pending for pending in sent]
    return {
        group.group_id: _commits_of(group)
        for answer in answers
        for group in answer.groups
        if _is_present(group.error_code, group.group_id, _ABSENT_GROUP)
    }


async def _by_coordinator(manager: KafkaConnectionManager, groups: Sequence[str]) -> dict[int, list[str]]:
    await _metadata(manager, [])
    request = FindCoordinatorRequest(
        key_type=_GROUP_COORDINATOR, coordinator_keys=list(groups), min_version=4
    )
    by_coordinator = defaultdict(list)
    for found in (await manager.send(request)).coordinators:
        if _is_present(found.error_code, found.key, _ABSENT_GROUP):
            by_coordinator[found.node_id].append(found.key)
    return by_coordinator


def _offset_fetch(groups: Sequence[str]) -> OffsetFetchRequest:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        groups=[group(group_id=name, topics=None) for name in groups],
        require_stable=False,
        min_version=8,
        max_version=8,
    )


def _commits_of(group: Any) -> list[_Commit]:
    commits = [
        (topic.name, entry)
        for topic in group.topics
        for entry in topic.partitions
        if entry.committed_offset >= 0 and _is_present(entry.error_code, topic.name, _ABSENT_TOPIC)
    ]
    return sorted(commits, key=lambda commit: (commit[0], commit[1].partition_index))


# Producer ids ----------------------------------------------------------------------------------


async def _allocate_producer_id(manager: KafkaConnectionManager) -> int:
    request = InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
    )
    answer = await manager.send(request)
    require(answer.error_code, None)
    if answer.producer_id < 0:
        raise ProtocolError(f"a producer id is not negative, got {answer.producer_id}; nothing was written")
    return int(answer.producer_id)
