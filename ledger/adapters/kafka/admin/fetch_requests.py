"""Requests for batches, of one partition at a time: for examining a log, not for copying it."""

from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.consumer import FetchRequest

from ledger.adapters.kafka.admin.answers import require
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.domain.facts import TopicPartition
from ledger.domain.topics.topic_ids import topic_id_text
from ledger.errors import ClusterUnavailableError
from ledger.wire.record_batch import BatchHeader, batches

_READ_UNCOMMITTED = 0
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
        isolation_level=_READ_UNCOMMITTED,
        session_id=0,
        session_epoch=_NO_SESSION,
        topics=[topic(topic=at.topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
        min_version=4,
        max_version=12,
    )
