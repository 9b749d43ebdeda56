"""Requests about topics: what is there, creation, growth, deletion."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar
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

from ledger.errors import ClusterUnavailableError, PreconditionError, QuotaExceededError, Trouble
from ledger.facts.fences import LeaderReading
from ledger.facts.identity import RememberedProducer
from ledger.facts.syncs import TopicPartition, topic_id_bytes
from ledger.kafka.batches import WholeBatch, batches, next_sequence
from ledger.kafka.cluster import (
    CoordinatedTransaction,
    PartitionEnds,
    Place,
    SettingsAnswer,
    TopicDescription,
    TopicSettings,
)
from ledger.kafka.spoken import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    FETCH_BY_ID,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    METADATA,
    NO_TOPIC_IDS,
    given_id,
)
from ledger.kafka.time_bounds import (
    has_bounds,
    has_one_bound,
    in_one_bound,
    in_two_bounds,
    is_of_one_bound,
    note_bounds,
)
from ledger.topics.following import NewTopic

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
NO_LEADER = (*ABSENT_TOPIC, *ABSENT_LEADER)
NOT_SPOKEN = (errors.UnsupportedVersionError, errors.InvalidRequestError)
"""Of brokers of an earlier release, or of another make: what they say that they do not speak is not sent, to the rest
they answer so."""
DOES_NOT_TELL = (errors.AuthorizationError, *NOT_SPOKEN)


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
        **METADATA.bounds,
    )
    answer = await manager.send(request, node_id=node_id)
    manager.cluster.update_metadata(answer)
    return answer


async def controller(manager: KafkaConnectionManager) -> int:
    return int((await metadata(manager, [])).controller_id)


async def brokers(manager: KafkaConnectionManager) -> list[int]:
    """The ids of all brokers; the manager learns their addresses."""
    return [broker.node_id for broker in (await metadata(manager, [])).brokers]


def is_described(topic: Any) -> bool:
    kind: Any = errors.for_code(topic.error_code)
    if issubclass(kind, (*ABSENT_TOPIC, *ABSENT_LEADER)):
        return False
    if kind is not errors.NoError:
        raise PreconditionError(f"topic {topic.name} cannot be described: {kind.description}; not done")
    return bool(topic.partitions)


def description(alias: str, topic: Any) -> TopicDescription:
    if (topic_id := given_id(topic)) is None:
        raise PreconditionError(f"cluster {alias} {NO_TOPIC_IDS}; not done", trouble=Trouble.NO_TOPIC_IDS)
    return TopicDescription(
        name=topic.name,
        topic_id=topic_id,
        partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replica_nodes),
        internal=topic.is_internal,
    )


async def create_topic(manager: KafkaConnectionManager, wanted: NewTopic, *, timeout_ms: int) -> None:
    """Create one topic. Raises kafka-python's error when it is refused, `QuotaExceededError` when it has to wait."""
    answer = await _created(manager, [wanted], timeout_ms)
    for topic in answer.topics:
        _require_quota(topic.error_code, answer.throttle_time_ms, f"topic {wanted.name}")
        require(topic.error_code, topic.error_message)


async def create_topics(
    manager: KafkaConnectionManager, wanted: Sequence[NewTopic], *, timeout_ms: int
) -> dict[str, str]:
    """Topic ids by name of those that were created; the others were refused, or have to wait."""
    return {
        topic.name: given_id(topic) or ""
        for topic in (await _created(manager, wanted, timeout_ms)).topics
        if errors.for_code(topic.error_code) is errors.NoError
    }


async def refused_settings(
    manager: KafkaConnectionManager, wanted: Sequence[NewTopic], *, timeout_ms: int
) -> dict[str, str]:
    """By name why a topic could not be created with these settings; nothing is created."""
    answer = await _created(manager, wanted, timeout_ms, validate_only=True)
    found = {topic.name: error_of(topic.error_code, topic.error_message) for topic in answer.topics}
    return {name: str(error) for name, error in found.items() if isinstance(error, REFUSED_SETTING)}


REFUSED_SETTING = (errors.InvalidConfigurationError, errors.PolicyViolationError)


async def _created(
    manager: KafkaConnectionManager,
    wanted: Sequence[NewTopic],
    timeout_ms: int,
    *,
    validate_only: bool = False,
) -> Any:
    """What the controller answers; for one bound, where the cluster has shown by refusing that it has only the one."""
    answer = await _sent_creation(manager, wanted, timeout_ms, validate_only=validate_only)
    refused = {topic.name for topic in answer.topics if _is_refused_setting(topic)}
    again = [topic for topic in wanted if topic.name in refused and has_bounds(topic.configuration)]
    if not again or has_one_bound(manager) is not None:
        return answer
    await _learn_bounds_by_creation(manager, again[0], timeout_ms)
    if has_one_bound(manager):
        names = {topic.name for topic in again}
        answered = await _sent_creation(manager, again, timeout_ms, validate_only=validate_only)
        answer.topics = [*(topic for topic in answer.topics if topic.name not in names), *answered.topics]
    return answer


def _is_refused_setting(topic: Any) -> bool:
    return errors.for_code(topic.error_code) is errors.InvalidConfigurationError


async def _sent_creation(
    manager: KafkaConnectionManager, wanted: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool
) -> Any:
    request = CreateTopicsRequest(
        topics=[_creatable(topic, one_bound=has_one_bound(manager)) for topic in wanted],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
        **CREATE_TOPICS.bounds,
    )
    return await _sent_to_controller(manager, request)


def _require_quota(error_code: int, throttle_ms: int, what: str) -> None:
    """Raise `QuotaExceededError` where a quota is why it was not done."""
    if errors.for_code(error_code) is errors.ThrottlingQuotaExceededError:
        wait_s = max(throttle_ms, _SHORTEST_WAIT_MS) / 1000
        raise QuotaExceededError(
            f"{what} has to wait for {wait_s:.1f} s: a quota on changes of topics is used up "
            "(controller_mutation_rate); not done",
            wait_s=wait_s,
        )


_SHORTEST_WAIT_MS = 100


async def _learn_bounds_by_creation(
    manager: KafkaConnectionManager, wanted: NewTopic, timeout_ms: int
) -> None:
    """Whether the cluster would create a topic with bounds of later releases, and nothing else set."""
    bounds = {name: value for name, value in wanted.configuration.items() if has_bounds([name])}
    alone = replace(wanted, configuration=bounds)
    [topic] = (await _sent_creation(manager, [alone], timeout_ms, validate_only=True)).topics
    note_bounds(manager, one=_is_refused_setting(topic))


def _creatable(wanted: NewTopic, *, one_bound: bool | None) -> CreateTopicsRequest.CreatableTopic:
    topic = CreateTopicsRequest.CreatableTopic
    configuration = in_one_bound(wanted.configuration) if one_bound else wanted.configuration
    return topic(
        name=wanted.name,
        num_partitions=wanted.partitions,
        replication_factor=wanted.replication_factor,
        assignments=[],
        configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in configuration.items()],
    )


async def add_partitions(manager: KafkaConnectionManager, name: str, *, total: int, timeout_ms: int) -> None:
    """Bring a topic to so many partitions. Raises kafka-python's error when it is refused."""
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=timeout_ms, validate_only=False)
    answer = await _sent_to_controller(manager, request)
    for result in answer.results:
        _require_quota(result.error_code, answer.throttle_time_ms, f"topic {name}")
        require(result.error_code, result.error_message)


async def delete_topic(
    manager: KafkaConnectionManager, *, name: str | None = None, topic_id: str | None = None, timeout_ms: int
) -> None:
    """Delete one incarnation of a topic, or the topic that has the name now; none is no error."""
    found = None if topic_id is None else UUID(bytes=topic_id_bytes(topic_id))
    wanted = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=found)
    request = DeleteTopicsRequest(topics=[wanted], timeout_ms=timeout_ms, **DELETE_TOPICS.bounds)
    for response in (await _sent_to_controller(manager, request)).responses:
        is_present(response.error_code, response.error_message or name or str(found), ABSENT_TOPIC)


async def _sent_to_controller(manager: KafkaConnectionManager, request: Any) -> Any:
    # Not by `create_topics` or `create_partitions`: there a controller that moves twice is a RuntimeError, not
    # "not now".
    return await manager.send(request, node_id=await controller(manager))


async def is_deleted(manager: KafkaConnectionManager, name: str) -> bool:
    """Whether no topic has the name; asked for by name, what may not be seen is distinguished from it."""
    [topic] = (await metadata(manager, [name])).topics
    return not is_present(topic.error_code, name, ABSENT_TOPIC)


# Leaders ------------------------------------------------------------------------------------------
# Who leads which partition, and requests to all leaders at once, each about what it leads.


@dataclass(frozen=True, slots=True)
class Led:
    """Who leads a partition, since which epoch, and how many replicas are in sync."""

    leader: int
    leader_epoch: int
    in_sync: int


async def led_of(manager: KafkaConnectionManager, places: Sequence[Place]) -> dict[Place, Led]:
    """Those that have a leader. Raises kafka-python's error for a topic that this principal may not describe; what is
    wrong with another one costs that one."""
    wanted = set(places)
    answer = await metadata(manager, sorted({topic for topic, _ in wanted}))
    for topic in answer.topics:
        if issubclass(errors.for_code(topic.error_code), errors.AuthorizationError):
            require(topic.error_code, topic.name)
    return {
        (topic.name, one.partition_index): Led(one.leader_id, one.leader_epoch, len(one.isr_nodes))
        for topic in answer.topics
        for one in topic.partitions
        if (topic.name, one.partition_index) in wanted and one.leader_id >= 0
    }


def send_to_leaders(
    manager: KafkaConnectionManager,
    led: Mapping[Place, Led | LeaderReading],
    request: Callable[[Sequence[Place]], Any],
) -> list[Any]:
    """Requests that are under way when this returns, one to each leader, about what it leads."""
    by_leader: dict[int, list[Place]] = defaultdict(list)
    for place, one in led.items():
        by_leader[one.leader].append(place)
    return [manager.send(request(some), node_id=leader) for leader, some in by_leader.items()]


def under_topics(
    entries: Iterable[tuple[str, Any]],
    topic: Callable[..., Any],
    *,
    name: str = "name",
    of: str = "partitions",
) -> list[Any]:
    """What a request says of partitions, given with the names of their topics, as it has them: under each `topic`.

    `name` and `of`: how the request calls a topic's name, and what it says of its partitions.
    """
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for topic_name, entry in entries:
        by_topic[topic_name].append(entry)
    return [topic(**{name: topic_name, of: found}) for topic_name, found in by_topic.items()]


async def by_leader(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    """Partitions of certain incarnations of topics by the node that leads them.

    Raises kafka-python's error where one has no leader, and ours where its topic has another id by now.
    """
    answer = await metadata(manager, sorted({at.topic for at in partitions}))
    topic_ids: dict[str, str | None] = {}
    leaders: dict[Place, int] = {}
    for topic in answer.topics:
        require(topic.error_code, topic.name)
        topic_ids[topic.name] = given_id(topic)
        leaders |= {(topic.name, one.partition_index): one.leader_id for one in topic.partitions}
    found: dict[int, list[TopicPartition]] = defaultdict(list)
    for at in partitions:
        if topic_ids[at.topic] != at.topic_id:
            raise ClusterUnavailableError(
                f"{at.topic} has another topic id than {at.topic_id} by now; not done"
            )
        if (leader := leaders.get((at.topic, at.partition), -1)) < 0:
            raise errors.LeaderNotAvailableError(f"{at.words}")
        found[leader].append(at)
    return found


async def leader_of(manager: KafkaConnectionManager, at: TopicPartition) -> int:
    """The node that leads a partition; raises as `by_leader`."""
    [leader] = await by_leader(manager, [at])
    return leader


# Ends ---------------------------------------------------------------------------------------------
# The ends of partitions, as their leaders have them.


_EARLIEST, _LATEST = -2, -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_UNKNOWN_EPOCH = -1


async def partition_ends(
    manager: KafkaConnectionManager, partitions: Sequence[Place]
) -> dict[Place, PartitionEnds]:
    return await ends_of(ask_for_ends(manager, await led_of(manager, partitions)))


def ask_for_ends(
    manager: KafkaConnectionManager, led: Mapping[Place, Led], *, of_leader_epoch: bool = False
) -> list[list[Any]]:
    """Three questions to each leader, all under way when this returns; ends only grow between them.

    `of_leader_epoch`: who leads by another epoch does not answer.
    """
    questions = ((_EARLIEST, _READ_UNCOMMITTED), (_LATEST, _READ_COMMITTED), (_LATEST, _READ_UNCOMMITTED))
    epochs = {place: one.leader_epoch for place, one in led.items()} if of_leader_epoch else {}
    return [
        send_to_leaders(manager, led, partial(_list_offsets, timestamp, isolation, epochs))
        for timestamp, isolation in questions
    ]


async def ends_of(asked: Sequence[Sequence[Any]]) -> dict[Place, PartitionEnds]:
    """The answers to `ask_for_ends`."""
    starting, stable, latest = [_offsets_of([await answer for answer in answers]) for answers in asked]
    return {
        place: _ends(starting[place], stable[place], latest[place])
        for place in starting.keys() & stable.keys() & latest.keys()
    }


async def offsets_at(
    manager: KafkaConnectionManager, partitions: Sequence[Place], timestamp_ms: int
) -> dict[Place, int]:
    """By partition the first offset with a record of that time or later; left out where there is none."""
    request = partial(_list_offsets, timestamp_ms, _READ_COMMITTED, {})
    sent = send_to_leaders(manager, await led_of(manager, partitions), request)
    found = _offsets_of([await answer for answer in sent])
    return {place: entry.offset for place, entry in found.items() if entry.offset >= 0}


def _list_offsets(
    timestamp: int, isolation: int, epochs: Mapping[Place, int], places: Sequence[Place]
) -> ListOffsetsRequest:
    # Not by `list_partition_offsets`, which raises for all at the first partition with an error.
    topic = ListOffsetsRequest.ListOffsetsTopic
    entries = (
        (
            at[0],
            topic.ListOffsetsPartition(
                partition_index=at[1],
                timestamp=timestamp,
                current_leader_epoch=epochs.get(at, _UNKNOWN_EPOCH),
            ),
        )
        for at in places
    )
    return ListOffsetsRequest(
        isolation_level=isolation, topics=under_topics(entries, topic), **LIST_OFFSETS.bounds
    )


def _offsets_of(answers: Sequence[Any]) -> dict[Place, Any]:
    """By partition what leaders answered about an offset; those without a leader, and deleted ones, are left out."""
    return {
        (topic.name, entry.partition_index): entry
        for answer in answers
        for topic in answer.topics
        for entry in topic.partitions
        if is_present(entry.error_code, topic.name, NO_LEADER)
    }


def _ends(starting: Any, stable: Any, latest: Any) -> PartitionEnds:
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
        result = await described_broker(manager, node_id)
        require(result.error_code, f"{result.resource_name}: {result.error_message}")
        found[node_id] = _effective(result.configs)
    return found


async def described_broker(manager: KafkaConnectionManager, node_id: int) -> Any:
    """What a broker answers about its own settings, which may be an error."""
    request = _describe_configs(_BROKER, [str(node_id)])
    [result] = (await manager.send(request, node_id=node_id)).results
    return result


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
    set_on_it = {name: value for name, value in effective.items() if name in own}
    return TopicSettings(in_two_bounds(set_on_it, among=effective), in_two_bounds(effective, among=effective))


async def change_settings_of(
    manager: KafkaConnectionManager, changes: Mapping[str, Mapping[str, str | None]]
) -> None:
    """Change own settings of topics, by topic and setting; None: it is removed.

    Raises kafka-python's error at the first topic that is refused; the others are changed all the same.
    """
    # Not by `alter_configs`, which makes texts of errors.
    bounded = [topic for topic, values in changes.items() if has_bounds(values)]
    if bounded and has_one_bound(manager) is None:
        await _learn_bounds_of(manager, bounded[0])
    if bounded and has_one_bound(manager):
        changes = {topic: in_one_bound(values) for topic, values in changes.items()}
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


async def _learn_bounds_of(manager: KafkaConnectionManager, topic: str) -> None:
    """Which bounds a topic has, if its settings are shown."""
    [result] = (await manager.send(_describe_configs(_TOPIC, [topic]))).results
    if result.error_code == 0:
        note_bounds(manager, one=is_of_one_bound(setting.name for setting in result.configs))


# Fetch requests -----------------------------------------------------------------------------------
# Requests for batches, for examining logs, not for copying them.


_FETCH_BYTES = 1 << 20  # a broker answers with one whole batch at least
_NO_SESSION, _CONSUMER = -1, -1


async def whole_batches_at(
    manager: KafkaConnectionManager, at: TopicPartition, offset: int
) -> list[WholeBatch]:
    """Batches from the one that holds an offset, or the first one after it; none where the log does not reach."""
    leader = await leader_of(manager, at)
    request = fetch({(at.topic, at.partition): offset}, partition_bytes=_FETCH_BYTES, most_bytes=_FETCH_BYTES)
    return fetched_batches(await manager.send(request, node_id=leader), at, offset)


async def aborted_at(
    manager: KafkaConnectionManager, at: TopicPartition, offset: int
) -> list[tuple[int, int]]:
    """Producer id and first offset of aborted transactions in what a committed reader gets from an offset on."""
    leader = await leader_of(manager, at)
    request = fetch(
        {at.place: offset},
        partition_bytes=_FETCH_BYTES,
        most_bytes=_FETCH_BYTES,
        isolation=_READ_COMMITTED,
    )
    answer = await manager.send(request, node_id=leader)
    if not fetched_batches(answer, at, offset):
        return []
    [aborted] = [part.aborted_transactions for topic in answer.responses for part in topic.partitions]
    return [(one.producer_id, one.first_offset) for one in aborted or ()]


def fetched_batches(answer: Any, at: TopicPartition, offset: int) -> list[WholeBatch]:
    """What a broker's answer to a fetch holds; none where the log does not reach.

    Raises kafka-python's error, after which it is asked again, for an answer that a quota has emptied: that would be
    taken for the end of the log. Without a quota one may be empty in front of the end: what lay there was cleaned.
    """
    require(answer.error_code, None)
    partitions = [entry for topic in answer.responses for entry in topic.partitions]
    if not partitions:
        raise errors.ThrottlingQuotaExceededError(f"{at.words} at {offset}")
    [partition] = partitions
    if errors.for_code(partition.error_code) is errors.OffsetOutOfRangeError:
        return []
    require(partition.error_code, at.topic)
    found = list(batches(memoryview(bytes(partition.records or b""))))
    if not found and answer.throttle_time_ms > 0 and offset < partition.high_watermark:
        raise errors.ThrottlingQuotaExceededError(f"{at.words} at {offset}")
    return found


def fetch(
    offsets: Mapping[Place, int], *, partition_bytes: int, most_bytes: int, isolation: int = _READ_UNCOMMITTED
) -> FetchRequest:
    """What a leader has from these offsets on, without waiting for more."""
    topic = FetchRequest.FetchTopic
    entries = (
        (
            name,
            topic.FetchPartition(
                partition=number,
                current_leader_epoch=_UNKNOWN_EPOCH,
                fetch_offset=offset,
                last_fetched_epoch=_UNKNOWN_EPOCH,
                log_start_offset=-1,
                partition_max_bytes=partition_bytes,
            ),
        )
        for (name, number), offset in offsets.items()
    )
    return FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=most_bytes,
        isolation_level=isolation,
        session_id=0,
        session_epoch=_NO_SESSION,
        topics=under_topics(entries, topic, name="topic"),
        forgotten_topics_data=[],
        rack_id="",
        min_version=4,
        max_version=FETCH_BY_ID.oldest - 1,  # with names of topics
    )


# Producer requests --------------------------------------------------------------------------------
# Requests about what brokers remember of producers.


async def expected_sequence(
    manager: KafkaConnectionManager, at: TopicPartition, producer_id: int
) -> int | None:
    """The sequence after the last one that the leader remembers of a producer, by DescribeProducers.

    None where it remembers none, and where the broker is too old or does not allow to ask.
    """
    try:
        active = (await active_producers(manager, [at]))[at]
    except DOES_NOT_TELL:
        return None
    last = active[producer_id].last_sequence if producer_id in active else -1
    return next_sequence(last, 1) if last >= 0 else None


async def remembered_producer(
    manager: KafkaConnectionManager, at: TopicPartition, producer_id: int
) -> RememberedProducer | None:
    """What the leader remembers of a producer, with the transactional id that any broker shows for it."""
    if (known := (await active_producers(manager, [at]))[at].get(producer_id)) is None:
        return None
    try:
        transaction = await coordinated(manager, producer_id)
    except DOES_NOT_TELL:
        transaction = None
    return RememberedProducer(
        known.last_timestamp if known.last_timestamp >= 0 else None,
        known.current_txn_start_offset >= 0,
        None if transaction is None else transaction.transactional_id,
    )


async def coordinated(manager: KafkaConnectionManager, producer_id: int) -> CoordinatedTransaction | None:
    """Each broker lists the transactions that it coordinates, of those that this principal may describe; before 3.0
    nothing."""
    # Not by `list_transactions`, which asks every broker and fails for a state that it does not know.
    for node in await brokers(manager):
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=[producer_id], **LIST_TRANSACTIONS.bounds
        )
        try:
            answer = await manager.send(request, node_id=node)
            require(answer.error_code, None)
        except NOT_SPOKEN:
            continue
        for one in answer.transaction_states:
            return CoordinatedTransaction(str(one.transactional_id), str(one.transaction_state))
    return None


async def active_producers(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, dict[int, Any]]:
    """What leaders remember, by partition and producer id."""
    found: dict[TopicPartition, dict[int, Any]] = {}
    for at, entry in await _described_producers(manager, partitions):
        require(entry.error_code, f"{at.topic} partition {at.partition}")
        found[at] = {known.producer_id: known for known in entry.active_producers}
    return found


async def transactional_producers(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition]
) -> dict[str, frozenset[int]]:
    """By topic the producer ids whose transactions leaders remember; what may not be described is left out."""
    found: dict[str, set[int]] = defaultdict(set)
    for at, entry in await _described_producers(manager, partitions):
        if not is_present(entry.error_code, at.words, (errors.AuthorizationError,)):
            continue
        found[at.topic] |= {
            known.producer_id
            for known in entry.active_producers
            if known.coordinator_epoch >= 0 or known.current_txn_start_offset >= 0
        }
    return {topic: frozenset(ids) for topic, ids in found.items() if ids}


async def _described_producers(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition]
) -> list[tuple[TopicPartition, Any]]:
    # Not by `describe_producers`, which asks the leader of whatever topic has the name by now.
    found = []
    for node, led in (await by_leader(manager, partitions)).items():
        places = {(at.topic, at.partition): at for at in led}
        topics = under_topics(places, DescribeProducersRequest.TopicRequest, of="partition_indexes")
        answer = await manager.send(DescribeProducersRequest(topics=topics), node_id=node)
        found += [
            (places[topic.name, entry.partition_index], entry)
            for topic in answer.topics
            for entry in topic.partitions
        ]
    return found


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
    for node in await brokers(manager):
        answer = await manager.send(request, node_id=node)
        require(getattr(answer, "error_code", 0) or 0, None)
        read = [dir for dir in answer.results if is_present(dir.error_code, dir.log_dir, ABSENT_LEADER)]
        for topic in (t for result in read for t in result.topics):
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
