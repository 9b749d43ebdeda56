"""Requests about the producer epochs of many partitions: one to each leader."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.producer import WriteTxnMarkersRequest

from ledger.adapters.kafka.admin.answers import require
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.domain.facts import TopicPartition
from ledger.domain.topics.topic_ids import topic_id_text
from ledger.errors import ClusterUnavailableError

_NO_COORDINATOR_YET = 0


async def producer_epochs(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition], producer_id: int
) -> dict[TopicPartition, int]:
    """The epoch that each leader remembers of a producer; partitions where it remembers none are left out."""
    known: dict[TopicPartition, int] = {}
    topic = DescribeProducersRequest.TopicRequest
    for node, led in (await _by_leader(manager, partitions)).items():
        answer = await manager.send(
            DescribeProducersRequest(
                topics=_by_topic(led, lambda name, ids: topic(name=name, partition_indexes=ids))
            ),
            node_id=node,
        )
        at_place = {(at.topic, at.partition): at for at in led}
        for found in answer.topics:
            for entry in found.partitions:
                require(entry.error_code, f"{found.name} partition {entry.partition_index}")
                for producer in entry.active_producers:
                    if producer.producer_id == producer_id:
                        known[at_place[found.name, entry.partition_index]] = int(producer.producer_epoch)
    return known


async def write_abort_markers(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition], producer_id: int, epoch: int
) -> None:
    """End a transaction of a producer at each of the partitions, of which there need be none.

    Raises kafka-python's error when a leader refuses: for a later epoch, or without the right. What a leader only
    cannot now is no error: whoever asks which epochs are known tries it again, and the others get no second marker.
    """
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic
    for node, led in (await _by_leader(manager, partitions)).items():
        request = WriteTxnMarkersRequest(
            markers=[
                marker(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    transaction_result=False,
                    topics=_by_topic(led, lambda name, ids: topic(name=name, partition_indexes=ids)),
                    coordinator_epoch=_NO_COORDINATOR_YET,
                )
            ]
        )
        answer = await manager.send(request, node_id=node)
        for one in answer.markers:
            for written in one.topics:
                for entry in written.partitions:
                    _require_no_refusal(entry.error_code, f"{written.name} partition {entry.partition_index}")


def _require_no_refusal(error_code: int, place: str) -> None:
    try:
        require(error_code, place)
    except errors.RetriableError:
        return


def _by_topic(partitions: Iterable[TopicPartition], made: Callable[[str, list[int]], Any]) -> list[Any]:
    numbers: dict[str, list[int]] = {}
    for at in partitions:
        numbers.setdefault(at.topic, []).append(at.partition)
    return [made(name, found) for name, found in sorted(numbers.items())]


async def _by_leader(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    """Raises kafka-python's error where one has no leader, or its topic has another id by now."""
    answer = await metadata(manager, sorted({at.topic for at in partitions}))
    leaders: dict[tuple[str, int], int] = {}
    for topic in answer.topics:
        require(topic.error_code, topic.name)
        topic_id = topic_id_text(topic.topic_id.bytes)
        if other := [at.topic_id for at in partitions if at.topic == topic.name and at.topic_id != topic_id]:
            raise ClusterUnavailableError(
                f"{topic.name} has another topic id than {other[0]} by now; not done"
            )
        leaders |= {(topic.name, one.partition_index): one.leader_id for one in topic.partitions}
    led: dict[int, list[TopicPartition]] = {}
    for at in partitions:
        node = leaders.get((at.topic, at.partition), -1)
        if node < 0:
            raise errors.LeaderNotAvailableError(f"{at.topic} partition {at.partition}")
        led.setdefault(node, []).append(at)
    return led
