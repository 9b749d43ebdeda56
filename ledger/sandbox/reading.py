"""An independent reader: what a client that knows nothing of the mirror sees of a topic.

It uses librdkafka's consumer, checks checksums and reads committed records only, as `assign`ed
partitions without a group. Demo and tests compare what it sees on both sides.
"""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed

from ledger.errors import ClusterUnavailableError
from ledger.kafka.requests import TRANSIENT

READ_TIMEOUT_S = 60.0
POLL_S = 0.05  # a call waits this long for more messages than there are
MESSAGES_AT_ONCE = 10_000

Partition: TypeAlias = tuple[str, int]
"""Topic and partition."""

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """What travels: equal on both sides of a mirror, wherever it lies."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class PlacedRecord(NamedTuple):
    """A record, where it was read, and whether its time is the producer's or the log's."""

    offset: int
    record: Record
    timestamp_type: int


Readings: TypeAlias = dict[Partition, list[PlacedRecord]]
"""Records by partition, in the order in which they were read."""


def read_topics(servers: str, topics: Sequence[str], *, isolation: str = "read_committed") -> Readings:
    """Everything that can be read of the topics now."""
    return read_partitions(
        servers, dict.fromkeys(ends(servers, topics), OFFSET_BEGINNING), isolation=isolation
    )


def read_partitions(
    servers: str, starts: Mapping[Partition, int], *, isolation: str = "read_committed"
) -> Readings:
    """Records of partitions, each from its own offset to its end as of now."""
    consumer = Consumer(reader_properties(servers, "independent-reader", isolation=isolation))
    try:
        consumer.assign([ClientPartition(*partition, offset) for partition, offset in starts.items()])
        return _until_all_ended(consumer, starts)
    finally:
        consumer.close()


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in TRANSIENT


# A broker that has just started tells clients of leaders before its own partitions have taken up their epoch.
@retry(
    retry=retry_if_exception(_is_transient),
    wait=wait_fixed(POLL_S),
    stop=stop_after_delay(READ_TIMEOUT_S),
    reraise=True,
)
def ends(servers: str, topics: Sequence[str], *, isolation: str = "read_committed") -> dict[Partition, int]:
    """Where a reader of that isolation level comes to the end of every partition of the topics."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    described = admin.list_topics(timeout=READ_TIMEOUT_S).topics
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {
        ClientPartition(topic, partition): latest
        for topic in topics
        for partition in described[topic].partitions
    }
    found = admin.list_offsets(asked, isolation_level=IsolationLevel[isolation.upper()])
    return {(at.topic, at.partition): answer.result(READ_TIMEOUT_S).offset for at, answer in found.items()}


def reader_properties(servers: str, group: str, *, isolation: str = "read_committed") -> dict[str, object]:
    """Consumer properties: nothing is committed unless asked for, and the end of a partition is reported."""
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "isolation.level": isolation,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,  # an end is reported after one empty fetch
        "check.crcs": True,
        "log_level": 0,
    }


def position(message: Message) -> tuple[Partition, int]:
    """Where a message, or the notice of an end, lies; the client library leaves neither out."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return (topic, partition), offset


def placed(message: Message, offset: int) -> PlacedRecord:
    """A message of the client library as a value."""
    timestamp_type, timestamp_ms = message.timestamp()
    headers = cast(Headers, tuple(message.headers() or ()))
    record = Record(message.key(), message.value(), headers, timestamp_ms)
    return PlacedRecord(offset, record, timestamp_type)


def is_end(message: Message) -> bool:
    """Whether this is the notice that a partition was read to its end; any other error is raised."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise ClusterUnavailableError(
        f"{message.topic()} partition {message.partition()} cannot be read: {error}"
    )


def _until_all_ended(consumer: Consumer, starts: Mapping[Partition, int]) -> Readings:
    read: Readings = {partition: [] for partition in starts}
    unended = set(starts)
    deadline_s = time.monotonic() + READ_TIMEOUT_S
    while unended:
        if time.monotonic() > deadline_s:
            raise ClusterUnavailableError(
                f"{len(unended)} partitions were not read to their end within {READ_TIMEOUT_S:.0f} s"
            )
        for message in consumer.consume(MESSAGES_AT_ONCE, timeout=POLL_S):
            at, offset = position(message)
            if is_end(message):
                unended.discard(at)
            else:
                read[at].append(placed(message, offset))
    return read
