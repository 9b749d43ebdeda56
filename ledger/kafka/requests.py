"""Fetch (12, 13) and Produce (9 to 13): the two requests that carry records, framed and parsed by hand.

Record sets are passed through as `memoryview`s, so a copied batch is never duplicated in memory.
The versions (`spoken`) are the oldest that are flexible and the first that go by topic id. Source: the message
schemas of Apache Kafka 4.3 (`FetchRequest.json`, `ProduceRequest.json` and their responses).
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from ledger.facts.syncs import TopicPartition, topic_id_bytes
from ledger.kafka import batches
from ledger.kafka.spoken import FETCH, PRODUCE

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_NO_TAGS = b"\x00"
_ALL_REPLICAS = -1
_CONSUMER = -1
_NO_EPOCH = -1
_NO_SESSION = (0, -1)
_NULL = b"\x00"
_EMPTY = b"\x01"
_UUID_BYTES = 16
_DIVERGING_EPOCH_TAG = 0
_CLIENT_ID = b"mirror-ledger"
_REQUEST_HEADER = struct.Struct(">hhih")
_FETCH_HEAD = struct.Struct(">iiiibii")
_PRODUCE_HEAD = struct.Struct(">hi")
_FETCH_PARTITION = struct.Struct(">iiqiqi")
_FETCH_RESPONSE_HEAD = struct.Struct(">ihi")
_FETCHED_PARTITION = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_PRODUCED_PARTITION = struct.Struct(">ihqqq")
_INT = struct.Struct(">i")
Part = TypeVar("Part")
Item = TypeVar("Item", "FetchItem", "ProduceItem")


@dataclass(frozen=True, slots=True)
class FetchItem:
    """One partition of a fetch; `last_epoch`: leader epoch of the last batch read, to be checked (None: not).

    `leader_epoch`: under which leader it is read; a node that knows of another answers with an error (None: none does,
    and one that has become a follower answers with what it has).
    """

    partition: TopicPartition
    offset: int
    max_bytes: int
    last_epoch: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ProduceItem:
    """One partition of a produce request: exactly one patched batch."""

    partition: TopicPartition
    batch: memoryview


@dataclass(frozen=True, slots=True)
class Fetched:
    """One partition of a Fetch response; `topic` is the name or the 16 bytes of the id, as asked.

    `preferred_replica`: the node that the leader sends this rack to, which is to be asked instead (KIP-392).
    """

    topic: str | bytes
    partition: int
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]
    records: memoryview
    diverging_end: int | None
    diverging_epoch: int | None = None
    preferred_replica: int | None = None


@dataclass(frozen=True, slots=True)
class Produced:
    """One partition of a Produce response; `refused`: indexes of the records in the batch that the broker named."""

    topic: str | bytes
    partition: int
    error: int
    base_offset: int
    message: str | None
    refused: tuple[int, ...] = ()


def _request_header(api_key: int, version: int, correlation_id: int) -> bytes:
    return _REQUEST_HEADER.pack(api_key, version, correlation_id, len(_CLIENT_ID)) + _CLIENT_ID + _NO_TAGS


def _compact_string(text: str) -> bytes:
    encoded = text.encode()
    return batches.unsigned(len(encoded) + 1) + encoded


def _topics(items: Iterable[Item], *, by_id: bool) -> list[tuple[bytes, list[Item]]]:
    """Items by how the request names their topic: by id where the broker can, by name where it is older."""
    by_topic: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        by_topic.setdefault((item.partition.topic, item.partition.topic_id), []).append(item)
    return [
        (topic_id_bytes(topic_id) if by_id else _compact_string(name), of_topic)
        for (name, topic_id), of_topic in by_topic.items()
    ]


def fetch_request(
    items: Iterable[FetchItem],
    *,
    correlation_id: int,
    by_id: bool,
    isolation_level: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    rack: str = "",
) -> bytes:
    """A framed Fetch request without a fetch session; `rack` has leaders name a replica that is nearer."""
    version = FETCH.newest if by_id else FETCH.oldest
    parts = [
        _request_header(FETCH.key, version, correlation_id),
        _FETCH_HEAD.pack(_CONSUMER, max_wait_ms, min_bytes, max_bytes, isolation_level, *_NO_SESSION),
    ]
    topics = _topics(items, by_id=by_id)
    parts.append(batches.unsigned(len(topics) + 1))
    for topic, of_topic in topics:
        parts += (topic, batches.unsigned(len(of_topic) + 1))
        for item in of_topic:
            last_epoch = _NO_EPOCH if item.last_epoch is None else item.last_epoch
            leader_epoch = _NO_EPOCH if item.leader_epoch is None else item.leader_epoch
            at = item.partition.partition
            parts += (
                _FETCH_PARTITION.pack(at, leader_epoch, item.offset, last_epoch, -1, item.max_bytes),
                _NO_TAGS,
            )
        parts.append(_NO_TAGS)
    parts += (_EMPTY, _compact_string(rack), _NO_TAGS)  # no forgotten topics
    return _INT.pack(sum(map(len, parts))) + b"".join(parts)


def produce_request(
    items: Iterable[ProduceItem], *, correlation_id: int, by_id: bool, timeout_ms: int
) -> list[bytes | memoryview]:
    """A framed Produce request with acks=all, as buffers to be sent one after another."""
    version = PRODUCE.newest if by_id else PRODUCE.oldest
    parts: list[bytes | memoryview] = [
        _request_header(PRODUCE.key, version, correlation_id)
        + _NULL
        + _PRODUCE_HEAD.pack(_ALL_REPLICAS, timeout_ms)
    ]
    topics = _topics(items, by_id=by_id)
    parts.append(batches.unsigned(len(topics) + 1))
    for topic, of_topic in topics:
        parts.append(topic + batches.unsigned(len(of_topic) + 1))
        for item in of_topic:
            parts += (
                _INT.pack(item.partition.partition) + batches.unsigned(len(item.batch) + 1),
                item.batch,
                _NO_TAGS,
            )
        parts.append(_NO_TAGS)
    parts.append(_NO_TAGS)
    return [_INT.pack(sum(map(len, parts))), *parts]


class _Reader:
    """A cursor over one response body."""

    __slots__ = ("buffer", "position")

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        self.position = 0

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self.buffer, self.position)
        self.position += layout.size
        return values

    def unsigned(self) -> int:
        value, self.position = batches.read_unsigned(self.buffer, self.position)
        return value

    def array_length(self) -> int:
        """Elements of a compact array; null counts as empty."""
        return max(self.unsigned() - 1, 0)

    def take(self, size: int) -> memoryview:
        taken = self.buffer[self.position : self.position + size]
        self.position += size
        return taken

    def compact_bytes(self) -> memoryview:
        return self.take(self.array_length())

    def nullable_string(self) -> str | None:
        size = self.unsigned()
        return None if size == 0 else bytes(self.take(size - 1)).decode()

    def topic(self, *, by_id: bool) -> str | bytes:
        return bytes(self.take(_UUID_BYTES)) if by_id else bytes(self.compact_bytes()).decode()

    def tags(self) -> dict[int, memoryview]:
        return {self.unsigned(): self.compact_tag() for _ in range(self.unsigned())}

    def compact_tag(self) -> memoryview:
        return self.take(self.unsigned())


@dataclass(frozen=True, slots=True)
class Answer(Generic[Part]):
    """A whole response: its partitions, and for how long a quota made the broker hold back this client."""

    parts: list[Part]
    throttle_ms: int
    error: int = 0


def parse_fetch_response(body: memoryview, *, by_id: bool) -> Answer[Fetched]:
    """A response body that starts after the correlation id."""
    reader = _Reader(body)
    reader.tags()
    throttle_ms, error, _session = reader.unpack(_FETCH_RESPONSE_HEAD)
    fetched: list[Fetched] = []
    for _ in range(reader.array_length()):
        topic = reader.topic(by_id=by_id)
        fetched += [_fetched_partition(reader, topic) for _ in range(reader.array_length())]
        reader.tags()
    return Answer(fetched, throttle_ms, error)


def _fetched_partition(reader: _Reader, topic: str | bytes) -> Fetched:
    partition, error, high_watermark, last_stable, log_start = reader.unpack(_FETCHED_PARTITION)
    aborted = []
    for _ in range(reader.array_length()):
        producer_id, first_offset = reader.unpack(_ABORTED)
        reader.tags()
        aborted.append((producer_id, first_offset))
    (preferred,) = reader.unpack(_INT)
    records = reader.compact_bytes()
    diverging = reader.tags().get(_DIVERGING_EPOCH_TAG)
    return Fetched(
        topic,
        partition,
        error,
        high_watermark,
        last_stable,
        log_start,
        tuple(aborted),
        records,
        None if diverging is None else int.from_bytes(diverging[4:12], "big", signed=True),
        None if diverging is None else int.from_bytes(diverging[:4], "big", signed=True),
        None if preferred < 0 else preferred,
    )


def parse_produce_response(body: memoryview, *, by_id: bool) -> Answer[Produced]:
    """A response body that starts after the correlation id."""
    reader = _Reader(body)
    reader.tags()
    produced: list[Produced] = []
    for _ in range(reader.array_length()):
        topic = reader.topic(by_id=by_id)
        produced += [_produced_partition(reader, topic) for _ in range(reader.array_length())]
        reader.tags()
    (throttle_ms,) = reader.unpack(_INT)
    return Answer(produced, throttle_ms)


def _produced_partition(reader: _Reader, topic: str | bytes) -> Produced:
    partition, error, base_offset, _append_time, _log_start = reader.unpack(_PRODUCED_PARTITION)
    refused: list[int] = []
    for _ in range(reader.array_length()):
        refused += reader.unpack(_INT)
        reader.nullable_string()
        reader.tags()
    message = reader.nullable_string()
    reader.tags()
    return Produced(topic, partition, error, base_offset, message, tuple(refused))


# Error codes --------------------------------------------------------------------------------------
# Broker error codes that the mirror reacts to. Source: Kafka's `Errors`.


class ErrorCode(IntEnum):
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_PRODUCER_ID_MAPPING = 49
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    INVALID_RECORD = 87
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103


TOPIC_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
REFUSED = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
ID_REFUSED = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID})
"""By clusters that check who gave a producer id: brokers of Kafka do not where there is no transaction."""
TRANSIENT = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.INCONSISTENT_TOPIC_ID,  # a broker that has not yet heard of the topic
    }
)


def describe(code: int) -> str:
    """The code with its name where this table has one."""
    return f"{code} ({ErrorCode(code).name})" if code in ErrorCode._value2member_map_ else str(code)
