"""Requests about logs as their leaders have them, many partitions at once: ends, the last batches, refusals.

What is sent to have it refused is a batch whose checksum is wrong, so it is appended under no setting. A broker
compares the size of a batch before its checksum (measured: 4.3); were it otherwise, nothing would count as refused for
its size. The leader answers alone (acks=1), so that nobody waits for replicas.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.producer import ProduceRequest

from ledger.adapters.kafka.admin.answers import ABSENT_LEADER, ABSENT_TOPIC, is_present, require
from ledger.adapters.kafka.admin.end_requests import known_epoch, offsets_of
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.domain.fences.proof import LeaderReading
from ledger.ports.fencing import Place, Refusal
from ledger.wire.record_batch import CRC_START, batches, build

_EARLIEST, _LATEST = -2, -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_CONSUMER, _NO_EPOCH, _NO_SESSION = -1, -1, -1
_GONE = (*ABSENT_TOPIC, *ABSENT_LEADER)
_BY_LEADER_ALONE = 1
_TIMEOUT_MS = 5_000
_LAST_OFFSETS = 200
_LAST_BYTES = 8_192
_MOST_BYTES = 50 << 20
_FIRST_FETCH, _LAST_FETCH = 4, 12  # with names of topics
_LAST_NAMED_PRODUCE = 12


@dataclass(frozen=True, slots=True)
class _Led:
    leader: int
    leader_epoch: int
    in_sync: int


async def _led(manager: KafkaConnectionManager, places: Sequence[Place]) -> dict[Place, _Led]:
    """Those that have a leader. Raises kafka-python's error for a topic that this principal may not describe."""
    wanted = set(places)
    answer = await metadata(manager, sorted({topic for topic, _ in wanted}))
    found = {}
    for topic in answer.topics:
        if not is_present(topic.error_code, topic.name, _GONE):
            continue
        for one in topic.partitions:
            place = topic.name, one.partition_index
            if place in wanted and one.leader_id >= 0:
                found[place] = _Led(one.leader_id, one.leader_epoch, len(one.isr_nodes))
    return found


def _by_leader(led: Mapping[Place, _Led | LeaderReading]) -> dict[int, dict[str, list[int]]]:
    """Partitions by topic, by the broker that leads them."""
    found: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (topic, partition), one in led.items():
        found[one.leader][topic].append(partition)
    return found


# Ends -----------------------------------------------------------------------------------------------


async def readings(manager: KafkaConnectionManager, places: Sequence[Place]) -> dict[Place, LeaderReading]:
    """Four answers of each leader, asked for in one go."""
    led = await _led(manager, places)
    by_leader = _by_leader(led)
    questions = [
        _offsets_request(_EARLIEST, _READ_UNCOMMITTED),
        _offsets_request(_LATEST, _READ_COMMITTED),
        _offsets_request(_LATEST, _READ_UNCOMMITTED),
        _log_end_request,
    ]
    sent = [
        [manager.send(request(topics, led), node_id=leader) for leader, topics in by_leader.items()]
        for request in questions
    ]
    starts, stable, latest = [offsets_of([await one for one in answers]) for answers in sent[:3]]
    log_ends = _log_ends([await one for one in sent[3]])
    return {
        place: _reading(one, starts[place], stable[place], latest[place], log_ends[place])
        for place, one in led.items()
        if all(place in found for found in (starts, stable, latest, log_ends))
    }


def _reading(led: _Led, start: Any, stable: Any, latest: Any, log_end: Any) -> LeaderReading:
    last_stable = max(start.offset, stable.offset)
    is_told = log_end.leader_epoch == led.leader_epoch >= 0 and log_end.end_offset >= 0
    return LeaderReading(
        leader=led.leader,
        leader_epoch=known_epoch(log_end.leader_epoch),
        log_start=start.offset,
        last_stable=last_stable,
        high_watermark=max(last_stable, latest.offset),
        log_end=log_end.end_offset if is_told else None,
        in_sync=led.in_sync,
    )


def _offsets_request(timestamp: int, isolation: int) -> Any:
    def request(topics: Mapping[str, Sequence[int]], led: Mapping[Place, _Led]) -> ListOffsetsRequest:
        topic = ListOffsetsRequest.ListOffsetsTopic
        return ListOffsetsRequest(
            isolation_level=isolation,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.ListOffsetsPartition(
                            partition_index=number,
                            timestamp=timestamp,
                            current_leader_epoch=led[name, number].leader_epoch,
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in topics.items()
            ],
            min_version=4,
        )

    return request


def _log_end_request(
    topics: Mapping[str, Sequence[int]], led: Mapping[Place, _Led]
) -> OffsetForLeaderEpochRequest:
    """The end of the epoch that lasts is the end of the leader's log, whatever followers have of it."""
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[
            topic(
                topic=name,
                partitions=[
                    topic.OffsetForLeaderPartition(
                        partition=number,
                        current_leader_epoch=led[name, number].leader_epoch,
                        leader_epoch=led[name, number].leader_epoch,
                    )
                    for number in numbers
                ],
            )
            for name, numbers in topics.items()
        ],
        min_version=3,
    )


def _log_ends(answers: Sequence[Any]) -> dict[Place, Any]:
    return {
        (topic.topic, entry.partition): entry
        for answer in answers
        for topic in answer.topics
        for entry in topic.partitions
        if is_present(entry.error_code, topic.topic, _GONE)
    }


# The last batches -----------------------------------------------------------------------------------


async def smallest_batches(manager: KafkaConnectionManager, places: Sequence[Place]) -> dict[Place, int]:
    seen = await readings(manager, places)
    sent = [manager.send(_fetch(topics, seen), node_id=leader) for leader, topics in _by_leader(seen).items()]
    found: dict[Place, int] = {}
    for answer in [await one for one in sent]:
        require(answer.error_code, None)
        for topic in answer.responses:
            for one in topic.partitions:
                if sizes := _sizes(one, topic.topic):
                    found[topic.topic, one.partition_index] = min(sizes)
    return found


def _sizes(answered: Any, topic: str) -> list[int]:
    if not is_present(answered.error_code, topic, (*_GONE, errors.OffsetOutOfRangeError)):
        return []
    headers = [header for header, _ in batches(memoryview(bytes(answered.records or b"")))]
    return [header.size for header in headers if not header.is_control and header.count > 0]


def _fetch(topics: Mapping[str, Sequence[int]], seen: Mapping[Place, LeaderReading]) -> Any:
    topic = FetchRequest.FetchTopic
    return FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_MOST_BYTES,
        isolation_level=_READ_UNCOMMITTED,
        session_id=0,
        session_epoch=_NO_SESSION,
        topics=[
            topic(
                topic=name,
                partitions=[
                    topic.FetchPartition(
                        partition=number,
                        current_leader_epoch=_NO_EPOCH,
                        fetch_offset=_near_the_end(seen[name, number]),
                        last_fetched_epoch=_NO_EPOCH,
                        log_start_offset=_NO_EPOCH,
                        partition_max_bytes=_LAST_BYTES,
                    )
                    for number in numbers
                ],
            )
            for name, numbers in topics.items()
        ],
        forgotten_topics_data=[],
        rack_id="",
        min_version=_FIRST_FETCH,
        max_version=_LAST_FETCH,
    )


def _near_the_end(reading: LeaderReading) -> int:
    return max(reading.log_start, reading.high_watermark - _LAST_OFFSETS)


# Refusals -------------------------------------------------------------------------------------------


async def refusals(
    manager: KafkaConnectionManager, places: Sequence[Place]
) -> dict[Place, tuple[int, Refusal]]:
    """One that was asked while leaders change has not answered for itself: it is left out."""
    led = await _led(manager, places)
    sent = [manager.send(_produce(topics), node_id=leader) for leader, topics in _by_leader(led).items()]
    return {
        (topic.name, one.index): (led[topic.name, one.index].leader, _refusal(one.error_code))
        for answer in [await one for one in sent]
        for topic in answer.responses
        for one in topic.partition_responses
        if not issubclass(errors.for_code(one.error_code), _GONE)
    }


def _refusal(error_code: int) -> Refusal:
    kind: Any = errors.for_code(error_code)
    if kind is errors.MessageSizeTooLargeError:
        return Refusal.BY_SIZE
    return Refusal.NOT_YET if kind in (errors.CorruptRecordError, errors.NoError) else Refusal.NOT_TOLD


def _damaged() -> bytes:
    """Larger than 78 bytes and smaller than anything that people allow; its one record is none, either."""
    batch = build(attributes=0, base_timestamp=0, max_timestamp=0, count=1, payload=bytes(40))
    batch[CRC_START - 1] ^= 0xFF
    return bytes(batch)


_DAMAGED = _damaged()


def _produce(topics: Mapping[str, Sequence[int]]) -> Any:
    topic = ProduceRequest.TopicProduceData
    return ProduceRequest(
        transactional_id=None,
        acks=_BY_LEADER_ALONE,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[
            topic(
                name=name,
                partition_data=[
                    topic.PartitionProduceData(index=number, records=_DAMAGED) for number in numbers
                ],
            )
            for name, numbers in topics.items()
        ],
        max_version=_LAST_NAMED_PRODUCE,
    )
