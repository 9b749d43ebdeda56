"""Requests about the ends of partitions."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.consumer import ListOffsetsRequest

from ledger.adapters.kafka.admin.answers import ABSENT_LEADER, ABSENT_TOPIC, is_present, require
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.ports.clusters import PartitionEnds

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
