"""Requests about topics: what is there, creation, growth, deletion."""

from collections.abc import Iterable, Sequence
from typing import Any, cast
from uuid import UUID

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from ledger.adapters.kafka.admin.answers import ABSENT_LEADER, ABSENT_TOPIC, is_present, require
from ledger.domain.topics.topic_ids import topic_id_bytes, topic_id_text
from ledger.errors import PreconditionError
from ledger.ports.clusters import NewTopic, TopicDescription


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


async def is_gone(manager: KafkaConnectionManager, name: str) -> bool:
    """Whether no topic has the name; asked for by name, what may not be seen is distinguished from it."""
    [topic] = (await metadata(manager, [name])).topics
    return not is_present(topic.error_code, name, ABSENT_TOPIC)
