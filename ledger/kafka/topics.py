"""Requests about topics: what is there, creation, growth, deletion."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast
from uuid import UUID

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    IncrementalAlterConfigsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.identity import RememberedProducer
from ledger.facts.syncs import TopicPartition, topic_id_bytes, topic_id_text
from ledger.kafka.batches import BatchHeader, batches, next_sequence
from ledger.kafka.cluster import NewTopic, PartitionEnds, SettingsAnswer, TopicDescription, TopicSettings

# Answers ------------------------------------------------------------------------------------------
# Error codes in answers of brokers: what is raised, and what only says that something is not there.


ABSENT_TOPIC = (errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError)
ABSENT_LEADER = (
    errors.LeaderNotAvailableError,
    errors.NotLeaderForPartitionError,
    errors.ReplicaNotAvailableError,
    errors.OffsetNotAvailableError,
    errors.KafkaStorageError,
    errors.FencedLeaderEpochError,
    errors.UnknownLeaderEpochError,
)


def error_of(error_code: int, detail: str | None) -> errors.KafkaError:
    """kafka-python's error for a code; of 0 it is `NoError`."""
    kind: Any = errors.for_code(error_code)
    error: errors.KafkaError = kind(detail or kind.description)
    return error


def require(error_code: int, detail: str | None) -> None:
    """Raise kafka-python's error for a code that is not zero."""
    if error_code != 0:
        raise error_of(error_code, detail)


def is_present(error_code: int, detail: str, absent: tuple[type[errors.KafkaError], ...]) -> bool:
    """Whether an entry holds an answer; codes other than those of absence are raised."""
    try:
        require(error_code, detail)
    except absent:
        return False
    return True


# Topic requests -----------------------------------------------------------------------------------


async def metadata(
    manager: KafkaConnectionManager,
    names: Iterable[str] | None,
    *,
    operations: bool = False,
    node_id: int | None = None,
) -> Any:
    """Topics and brokers as some broker sees them; the manager learns the brokers' addresses.

    `operations`: with what this principal may do with each topic. `node_id`: the broker that is asked, None: any.
    """
    # Not by `describe_topics`, which always asks for operations: it takes twice the time.
    topic = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=None if names is None else [topic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=operations,
    )
    answer = await manager.send(request, node_id=node_id)
    manager.cluster.update_metadata(answer)
    return answer


async def controller(manager: KafkaConnectionManager) -> int:
    return int((await metadata(manager, [])).controller_id)


def is_described(topic: Any) -> bool:
    kind: Any = errors.for_code(topic.error_code)
    if issubclass(kind, (*ABSENT_TOPIC, *ABSENT_LEADER)):
        return False
    if kind is not errors.NoError:
        raise PreconditionError(f"topic {topic.name} cannot be described: {kind.description}; not done")
    return bool(topic.partitions)


def description(alias: str, topic: Any) -> TopicDescription:
    if topic.topic_id is None or not topic.topic_id.int:
        raise PreconditionError(f"cluster {alias} gives no topic ids: Kafka 2.8 or later is needed; not done")
    return TopicDescription(
        name=topic.name,
        topic_id=topic_id_text(topic.topic_id.bytes),
        partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replica_nodes),
        internal=topic.is_internal,
    )


async def create_topic(manager: KafkaConnectionManager, wanted: NewTopic, *, timeout_ms: int) -> None:
    """Create one topic. Raises kafka-python's error when it is refused."""
    for topic in await _created(manager, [wanted], timeout_ms):
        require(topic.error_code, topic.error_message)


async def create_topics(
    manager: KafkaConnectionManager, wanted: Sequence[NewTopic], *, timeout_ms: int
) -> dict[str, str]:
    """Topic ids by name of those that were created; the others were refused."""
    return {
        topic.name: topic_id_text(topic.topic_id.bytes)
        for topic in await _created(manager, wanted, timeout_ms)
        if errors.for_code(topic.error_code) is errors.NoError
    }


async def _created(
    manager: KafkaConnectionManager, wanted: Sequence[NewTopic], timeout_ms: int
) -> Sequence[Any]:
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in wanted],
        timeout_ms=timeout_ms,
        validate_only=False,
        min_version=7,  # answers with topic ids
    )
    return cast(Sequence[Any], (await _sent_to_controller(manager, request)).topics)


def _creatable(wanted: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    topic = CreateTopicsRequest.CreatableTopic
    return topic(
        name=wanted.name,
        num_partitions=wanted.partitions,
        replication_factor=wanted.replication_factor,
        assignments=[],
        configs=[
            topic.CreatableTopicConfig(name=key, value=value) for key, value in wanted.configuration.items()
        ],
    )


async def add_partitions(manager: KafkaConnectionManager, name: str, *, total: int, timeout_ms: int) -> None:
    """Bring a topic to so many partitions. Raises kafka-python's error when it is refused."""
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=timeout_ms, validate_only=False)
    for result in (await _sent_to_controller(manager, request)).results:
        require(result.error_code, result.error_message)


async def delete_topic(manager: KafkaConnectionManager, topic_id: str, *, timeout_ms: int) -> None:
    """Delete one incarnation of a topic; that it was deleted already is no error."""
    await _delete(manager, None, UUID(bytes=topic_id_bytes(topic_id)), timeout_ms)


async def delete_topic_by_name(manager: KafkaConnectionManager, name: str, *, timeout_ms: int) -> None:
    """Delete the topic that has the name now; none is no error."""
    await _delete(manager, name, None, timeout_ms)


async def _delete(
    manager: KafkaConnectionManager, name: str | None, topic_id: UUID | None, timeout_ms: int
) -> None:
    wanted = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id)
    request = DeleteTopicsRequest(topics=[wanted], timeout_ms=timeout_ms, min_version=6)
    for response in (await _sent_to_controller(manager, request)).responses:
        is_present(response.error_code, response.error_message or name or str(topic_id), ABSENT_TOPIC)


async def _sent_to_controller(manager: KafkaConnectionManager, request: Any) -> Any:
    # Not by `create_topics` or `create_partitions`: there a controller that moves twice is a RuntimeError, not
    # "not now".
    return await manager.send(request, node_id=await controller(manager))


async def is_deleted(manager: KafkaConnectionManager, name: str) -> bool:
    """Whether no topic has the name; asked for by name, what may not be seen is distinguished from it."""
    [topic] = (await metadata(manager, [name])).topics
    return not is_present(topic.error_code, name, ABSENT_TOPIC)


# End requests -------------------------------------------------------------------------------------
# Requests about the ends of partitions.


_EARLIEST, _LATEST = -2, -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1

Partition = tuple[str, int]


async def partition_ends(
    manager: KafkaConnectionManager, partitions: Sequence[Partition]
) -> dict[Partition, PartitionEnds]:
    """Three answers of each leader, asked for in one go; ends only grow between them."""
    by_leader = await _by_leader(manager, partitions)
    questions = ((_EARLIEST, _READ_UNCOMMITTED), (_LATEST, _READ_COMMITTED), (_LATEST, _READ_UNCOMMITTED))
    sent = [
        [manager.send(_list_offsets(led, *question), node_id=leader) for leader, led in by_leader.items()]
        for question in questions
    ]
    starting, stable, latest = [offsets_of([await answer for answer in answers]) for answers in sent]
    return {
        partition: _ends_of(starting[partition], stable[partition], latest[partition])
        for partition in starting.keys() & stable.keys() & latest.keys()
    }


async def offsets_at(
    manager: KafkaConnectionManager, partitions: Sequence[Partition], timestamp_ms: int
) -> dict[Partition, int]:
    """By partition the first offset with a record of that time or later; left out where there is none."""
    by_leader = await _by_leader(manager, partitions)
    sent = [
        manager.send(_list_offsets(led, timestamp_ms, _READ_COMMITTED), node_id=leader)
        for leader, led in by_leader.items()
    ]
    found = offsets_of([await answer for answer in sent])
    return {partition: entry.offset for partition, entry in found.items() if entry.offset >= 0}


async def _by_leader(
    manager: KafkaConnectionManager, partitions: Sequence[Partition]
) -> dict[int, list[Partition]]:
    wanted = set(partitions)
    answer = await metadata(manager, sorted({topic for topic, _ in wanted}))
    by_leader = defaultdict(list)
    for topic in answer.topics:
        if issubclass(errors.for_code(topic.error_code), errors.AuthorizationError):
            require(topic.error_code, topic.name)
        for partition in topic.partitions:
            if (topic.name, partition.partition_index) in wanted and partition.leader_id >= 0:
                by_leader[partition.leader_id].append((topic.name, partition.partition_index))
    return by_leader


def _list_offsets(partitions: Sequence[Partition], timestamp: int, isolation: int) -> ListOffsetsRequest:
    # Not by `list_partition_offsets`, which raises for all at the first partition with an error.
    topic = ListOffsetsRequest.ListOffsetsTopic
    by_topic = defaultdict(list)
    for name, index in partitions:
        by_topic[name].append(topic.ListOffsetsPartition(partition_index=index, timestamp=timestamp))
    return ListOffsetsRequest(
        isolation_level=isolation,
        topics=[topic(name=name, partitions=entries) for name, entries in by_topic.items()],
        min_version=4,
    )


def offsets_of(answers: Sequence[Any]) -> dict[Partition, Any]:
    """By partition what leaders answered about an offset; those without a leader, and deleted ones, are left out."""
    return {
        (topic.name, entry.partition_index): entry
        for answer in answers
        for topic in answer.topics
        for entry in topic.partitions
        if is_present(entry.error_code, topic.name, (*ABSENT_TOPIC, *ABSENT_LEADER))
    }


def _ends_of(starting: Any, stable: Any, latest: Any) -> PartitionEnds:
    last_stable = max(starting.offset, stable.offset)
    return PartitionEnds(
        log_start=starting.offset,
        last_stable=last_stable,
        high_watermark=max(last_stable, latest.offset),
        leader_epoch=known_epoch(latest.leader_epoch),
    )


def known_epoch(epoch: int) -> int | None:
    return epoch if epoch >= 0 else None


# Setting requests ---------------------------------------------------------------------------------
# Requests about the settings of topics and brokers.


_TOPIC, _BROKER = 2, 4
_SET_ON_THE_TOPIC = 1
_SET, _DELETE = 0, 1


async def described_settings(
    manager: KafkaConnectionManager,
    topics: Sequence[str],
    broker: int | None = None,
    names: Sequence[str] | None = None,
) -> SettingsAnswer:
    """Settings by topic; topics that do not exist are left out, refusals are returned one by one.

    As this broker has them; None: any. `names`: of the settings, None: all.
    """
    answer = SettingsAnswer({}, {})
    for result in (await manager.send(_describe_configs(_TOPIC, topics, names), node_id=broker)).results:
        kind: Any = errors.for_code(result.error_code)
        if kind is errors.NoError:
            answer.read[result.resource_name] = _settings(result.configs)
        elif issubclass(kind, errors.AuthorizationError):
            answer.refused[result.resource_name] = result.error_message or kind.description
        elif not issubclass(kind, ABSENT_TOPIC):
            require(result.error_code, f"{result.resource_name}: {result.error_message}")
    return answer


async def broker_settings(
    manager: KafkaConnectionManager, node_ids: Sequence[int]
) -> dict[int, dict[str, str]]:
    """Every setting of these brokers, which each tells of itself."""
    await metadata(manager, [])
    found: dict[int, dict[str, str]] = {}
    for node_id in node_ids:
        answer = await manager.send(_describe_configs(_BROKER, [str(node_id)]), node_id=node_id)
        for result in answer.results:
            require(result.error_code, f"{result.resource_name}: {result.error_message}")
            found[node_id] = _effective(result.configs)
    return found


def _describe_configs(
    kind: int, of: Sequence[str], names: Sequence[str] | None = None
) -> DescribeConfigsRequest:
    # Not by `describe_configs`, which drops error codes.
    resource = DescribeConfigsRequest.DescribeConfigsResource
    keys = None if names is None else list(names)
    return DescribeConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=one, configuration_keys=keys) for one in of],
        include_synonyms=False,
        include_documentation=False,
    )


def _effective(configs: Sequence[Any]) -> dict[str, str]:
    return {setting.name: setting.value for setting in configs if setting.value is not None}


def _settings(configs: Sequence[Any]) -> TopicSettings:
    effective = _effective(configs)
    own = {setting.name for setting in configs if setting.config_source == _SET_ON_THE_TOPIC}
    return TopicSettings({name: value for name, value in effective.items() if name in own}, effective)


async def change_settings_of(
    manager: KafkaConnectionManager, changes: Mapping[str, Mapping[str, str | None]]
) -> None:
    """Change own settings of topics, by topic and setting; None: it is removed.

    Raises kafka-python's error at the first topic that is refused; the others are changed all the same.
    """
    # Not by `alter_configs`, which makes texts of errors.
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    alterable = resource.AlterableConfig
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource(
                resource_type=_TOPIC,
                resource_name=topic,
                configs=[
                    alterable(name=setting, config_operation=_DELETE if value is None else _SET, value=value)
                    for setting, value in values.items()
                ],
            )
            for topic, values in changes.items()
        ],
        validate_only=False,
    )
    for response in (await manager.send(request, node_id=await controller(manager))).responses:
        require(response.error_code, response.error_message)


# Fetch requests -----------------------------------------------------------------------------------
# Requests for batches, of one partition at a time: for examining a log, not for copying it.


_FETCH_UNCOMMITTED = 0
_MAX_WAIT_MS = 0
_LEAST_BYTES = 1
_MOST_BYTES = 1 << 20  # a broker answers with one whole batch at least
_NO_SESSION, _NO_EPOCH, _CONSUMER = -1, -1, -1


async def batches_at(manager: KafkaConnectionManager, at: TopicPartition, offset: int) -> list[BatchHeader]:
    """Batches from the one that holds an offset, or the first one after it; none where the log does not reach."""
    answer = await manager.send(_fetch(at, offset), node_id=await leader_of(manager, at))
    return fetched_batches(answer, at, offset)


def fetched_batches(answer: Any, at: TopicPartition, offset: int) -> list[BatchHeader]:
    """What a broker's answer to a fetch holds; none where the log does not reach.

    Raises kafka-python's error, after which it is asked again, for an answer that a quota has emptied: that would be
    taken for the end of the log. Without a quota one may be empty in front of the end: what lay there was cleaned.
    """
    require(answer.error_code, None)
    partitions = [entry for topic in answer.responses for entry in topic.partitions]
    if not partitions:
        raise errors.ThrottlingQuotaExceededError(f"{at.topic} partition {at.partition} at {offset}")
    [partition] = partitions
    if errors.for_code(partition.error_code) is errors.OffsetOutOfRangeError:
        return []
    require(partition.error_code, at.topic)
    found = [header for header, _ in batches(memoryview(bytes(partition.records or b"")))]
    if not found and answer.throttle_time_ms > 0 and offset < partition.high_watermark:
        raise errors.ThrottlingQuotaExceededError(f"{at.topic} partition {at.partition} at {offset}")
    return found


async def leader_of(manager: KafkaConnectionManager, at: TopicPartition) -> int:
    """The node that leads a partition.

    Raises kafka-python's error where it has none, or where the topic has another id by now.
    """
    answer = await metadata(manager, [at.topic])
    [topic] = answer.topics
    require(topic.error_code, at.topic)
    if topic_id_text(topic.topic_id.bytes) != at.topic_id:
        raise ClusterUnavailableError(f"{at.topic} has another topic id than {at.topic_id} by now; not read")
    leaders = {entry.partition_index: entry.leader_id for entry in topic.partitions}
    if leaders.get(at.partition, -1) < 0:
        raise errors.LeaderNotAvailableError(f"{at.topic} partition {at.partition}")
    return int(leaders[at.partition])


def _fetch(at: TopicPartition, offset: int) -> Any:
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition=at.partition,
        current_leader_epoch=_NO_EPOCH,
        fetch_offset=offset,
        last_fetched_epoch=_NO_EPOCH,
        log_start_offset=_NO_EPOCH,
        partition_max_bytes=_MOST_BYTES,
    )
    return FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=_LEAST_BYTES,
        max_bytes=_MOST_BYTES,
        isolation_level=_FETCH_UNCOMMITTED,
        session_id=0,
        session_epoch=_NO_SESSION,
        topics=[topic(topic=at.topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
        min_version=4,
        max_version=12,
    )


# Producer requests --------------------------------------------------------------------------------
# Requests about what brokers remember of producers.


_DOES_NOT_TELL = (errors.AuthorizationError, errors.IncompatibleBrokerVersion)


async def expected_sequence(
    manager: KafkaConnectionManager, at: TopicPartition, producer_id: int
) -> int | None:
    """The sequence after the last one that the leader remembers of a producer, by DescribeProducers.

    None where it remembers none, and where the broker is too old or does not allow to ask.
    """
    try:
        active = await active_producers(manager, at)
    except _DOES_NOT_TELL:
        return None
    last = active[producer_id].last_sequence if producer_id in active else -1
    return next_sequence(last, 1) if last >= 0 else None


async def remembered_producer(
    manager: KafkaConnectionManager, at: TopicPartition, producer_id: int
) -> RememberedProducer | None:
    """What the leader remembers of a producer, with the transactional id that any broker shows for it."""
    if (known := (await active_producers(manager, at)).get(producer_id)) is None:
        return None
    return RememberedProducer(
        known.last_timestamp if known.last_timestamp >= 0 else None,
        known.current_txn_start_offset >= 0,
        await _transactional_id(manager, producer_id),
    )


async def _transactional_id(manager: KafkaConnectionManager, producer_id: int) -> str | None:
    """Each broker lists the transactions that it coordinates, of those that this principal may describe."""
    # Not by `list_transactions`, which asks every broker and fails for a state that it does not know.
    nodes = [broker.node_id for broker in (await metadata(manager, [])).brokers]
    for node in nodes:
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[producer_id], max_version=0)
        try:
            answer = await manager.send(request, node_id=node)
            require(answer.error_code, None)
        except _DOES_NOT_TELL:
            return None
        for listed in answer.transaction_states:
            return str(listed.transactional_id)
    return None


async def active_producers(manager: KafkaConnectionManager, at: TopicPartition) -> dict[int, Any]:
    """What the leader remembers, by producer id."""
    # Not by `describe_producers`, which asks the leader of whatever topic has the name by now.
    topic = DescribeProducersRequest.TopicRequest(name=at.topic, partition_indexes=[at.partition])
    request = DescribeProducersRequest(topics=[topic])
    answer = await manager.send(request, node_id=await leader_of(manager, at))
    [partition] = [entry for one in answer.topics for entry in one.partitions]
    require(partition.error_code, at.topic)
    return {known.producer_id: known for known in partition.active_producers}


# Log dir requests ---------------------------------------------------------------------------------
# Requests about what lies in the log directories of brokers.


async def partition_sizes(
    manager: KafkaConnectionManager, topics: Mapping[str, int]
) -> dict[tuple[str, int], int]:
    """The largest replica of each partition; brokers tell only what they hold themselves."""
    # Not by `describe_log_dirs`, which drops the error code of the answer: what may not be seen seems empty.
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    request = DescribeLogDirsRequest(
        topics=[topic(topic=name, partitions=list(range(count))) for name, count in topics.items()]
    )
    found: dict[tuple[str, int], int] = {}
    for broker in (await metadata(manager, [])).brokers:
        answer = await manager.send(request, node_id=broker.node_id)
        require(getattr(answer, "error_code", 0) or 0, None)
        for topic in (t for result in answer.results for t in result.topics):
            for entry in topic.partitions:
                key = (topic.name, entry.partition_index)
                found[key] = max(found.get(key, 0), entry.partition_size)
    return found


# Portions -----------------------------------------------------------------------------------------
# Requests about many names, portion by portion, and what is said of them.


Item = TypeVar("Item")


def listed(names: Sequence[str], kind: str = "topic") -> str:
    """`topic a, b, c and 4 more`, for messages."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{kind} {', '.join(names[:3])}{more}"


def parts(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """What one request is asked about, of many."""
    return (items[start : start + size] for start in range(0, len(items), size))
