"""Requests about what brokers remember of producers."""

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeProducersRequest

from ledger.adapters.kafka.cluster_connection import require
from ledger.adapters.kafka.fetch_requests import leader_of
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


async def _last_sequences(manager: KafkaConnectionManager, at: TopicPartition) -> dict[int, int]:
    topic = DescribeProducersRequest.TopicRequest(name=at.topic, partition_indexes=[at.partition])
    request = DescribeProducersRequest(topics=[topic])
    answer = await manager.send(request, node_id=await leader_of(manager, at))
    [partition] = [entry for told in answer.topics for entry in told.partitions]
    require(partition.error_code, at.topic)
    return {known.producer_id: known.last_sequence for known in partition.active_producers}
