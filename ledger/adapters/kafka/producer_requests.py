"""Requests about what brokers remember of producers."""

from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest

from ledger.adapters.kafka.cluster_connection import require
from ledger.adapters.kafka.fetch_requests import leader_of
from ledger.adapters.kafka.topic_requests import metadata_without_topics
from ledger.domain.cluster_identity import RememberedProducer
from ledger.domain.facts import TopicPartition
from ledger.wire.record_batch import next_sequence

_DOES_NOT_TELL = (errors.AuthorizationError, errors.IncompatibleBrokerVersion)


async def expected_sequence(
    manager: KafkaConnectionManager, at: TopicPartition, producer_id: int
) -> int | None:
    """The sequence after the last one that the leader remembers of a producer, by DescribeProducers.

    None where it remembers none, and where the broker is too old or does not allow to ask.
    """
    try:
        known = await _last_sequences(manager, at)
    except _DOES_NOT_TELL:
        return None
    last = known.get(producer_id, -1)
    return next_sequence(last, 1) if last >= 0 else None


async def remembered_producer(
    manager: KafkaConnectionManager, at: TopicPartition, producer_id: int
) -> RememberedProducer | None:
    """What the leader remembers of a producer, with the transactional id that any broker shows for it."""
    active = {known.producer_id: known for known in await _active_producers(manager, at)}
    if (known := active.get(producer_id)) is None:
        return None
    return RememberedProducer(
        known.last_timestamp if known.last_timestamp >= 0 else None,
        known.current_txn_start_offset >= 0,
        await _transactional_id(manager, producer_id),
    )


async def _transactional_id(manager: KafkaConnectionManager, producer_id: int) -> str | None:
    """Each broker lists the transactions that it coordinates, of those that this principal may describe."""
    nodes = [broker.node_id for broker in (await metadata_without_topics(manager)).brokers]
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


async def _last_sequences(manager: KafkaConnectionManager, at: TopicPartition) -> dict[int, int]:
    return {known.producer_id: known.last_sequence for known in await _active_producers(manager, at)}


async def _active_producers(manager: KafkaConnectionManager, at: TopicPartition) -> list[Any]:
    topic = DescribeProducersRequest.TopicRequest(name=at.topic, partition_indexes=[at.partition])
    request = DescribeProducersRequest(topics=[topic])
    answer = await manager.send(request, node_id=await leader_of(manager, at))
    [partition] = [entry for told in answer.topics for entry in told.partitions]
    require(partition.error_code, at.topic)
    return list(partition.active_producers)
