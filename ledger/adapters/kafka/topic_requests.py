"""Requests about topics: what is there, creation, growth, deletion."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from ledger.adapters.kafka.answers import ABSENT_LEADER, ABSENT_TOPIC, is_present
from ledger.adapters.kafka.cluster_connection import require
from ledger.domain.topics.topic_ids import topic_id_bytes, topic_id_text
from ledger.errors import PreconditionError
from ledger.ports.clusters import NewTopic, TopicDescription


async def metadata(manager: KafkaConnectionManager, names: Sequence[str] | None) -> Any:
    """Topics and brokers as some broker sees them; the manager learns the brokers' addresses."""
    topic = MetadataRequest.MetadataRequestTopic
    topics = None if names is None else [topic(name=name) for name in names]
    answer = await manager.send(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    manager.cluster.update_metadata(answer)
    return answer


async def metadata_without_topics(manager: KafkaConnectionManager) -> Any:
    return await metadata(manager, [])


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


async def create_topic(
    manager: KafkaConnectionManager,
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    configuration: Mapping[str, str],
    timeout_ms: int,
) -> None:
    request = CreateTopicsRequest(
        topics=[_creatable(name, partitions, replication_factor, configuration)],
        timeout_ms=timeout_ms,
        validate_only=False,
    )
    for topic in (await manager.send(request, node_id=await controller(manager))).topics:
        require(topic.error_code, topic.error_message)


async def create_topics(
    manager: KafkaConnectionManager, wanted: Sequence[NewTopic], *, timeout_ms: int
) -> dict[str, str]:
    """Topic ids by name of those that were created; the others were refused."""
    request = CreateTopicsRequest(
        topics=[
            _creatable(topic.name, topic.partitions, topic.replication_factor, topic.configuration)
            for topic in wanted
        ],
        timeout_ms=timeout_ms,
        validate_only=False,
        min_version=7,  # answers with topic ids
    )
    answer = await manager.send(request, node_id=await controller(manager))
    return {
        topic.name: topic_id_text(topic.topic_id.bytes)
        for topic in answer.topics
        if errors.for_code(topic.error_code) is errors.NoError
    }


async def add_partitions(manager: KafkaConnectionManager, name: str, *, total: int, timeout_ms: int) -> None:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=timeout_ms, validate_only=False)
    for result in (await manager.send(request, node_id=await controller(manager))).results:
        require(result.error_code, result.error_message)


async def delete_topic(manager: KafkaConnectionManager, topic_id: str, *, timeout_ms: int) -> None:
    """Delete one life of a topic; one that is gone already is no error."""
    state = DeleteTopicsRequest.DeleteTopicState
    wanted = state(name=None, topic_id=UUID(bytes=topic_id_bytes(topic_id)))
    request = DeleteTopicsRequest(topics=[wanted], timeout_ms=timeout_ms, min_version=6)
    for response in (await manager.send(request, node_id=await controller(manager))).responses:
        is_present(response.error_code, response.error_message or topic_id, ABSENT_TOPIC)


async def is_gone(manager: KafkaConnectionManager, name: str) -> bool:
    """Whether no topic has the name; asked for by name, what may not be seen is told apart from it."""
    [topic] = (await metadata(manager, [name])).topics
    return not is_present(topic.error_code, name, ABSENT_TOPIC)
