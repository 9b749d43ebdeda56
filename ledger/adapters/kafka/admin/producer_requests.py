"""Requests about what brokers remember of producers."""

from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest

from ledger.adapters.kafka.admin.answers import require
from ledger.adapters.kafka.admin.fetch_requests import leader_of
from ledger.adapters.kafka.admin.topic_requests import metadata
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
