"""A seeded workload for the source cluster: everything that makes copying Kafka topics hard, in small.

    events-CODEC   every codec; several partitions, null keys, null values, repeated headers
    stamped        the log stamps the times (LogAppendTime), whatever the producers say
    transfers      transactions of two producers between each other, committed and aborted in turn
    inventory      compacted, with real gaps where the cleaner removed records

Every record carries a serial number that no other record of the workload has: in its value, or in a header
when the value is null. Contents follow from the seed; times start at `started_ms`.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ledger.errors import ClusterUnavailableError
from ledger.sandbox.reading import Headers, Record

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
TIMEOUT_S = 60.0
SLICE = 5_000
_WORDS = ("amber", "birch", "cobalt", "dune", "ember", "fjord", "garnet", "heath", "indigo", "juniper")
_FRAGMENTS = 256
_JITTER_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is produced. `prefix` keeps topics of several workloads on one cluster apart."""

    records_per_topic: int
    started_ms: int
    seed: int = 7
    prefix: str = ""

    @property
    def event_topics(self) -> Mapping[str, str]:
        """Codec by topic."""
        return {f"{self.prefix}events-{codec}": codec for codec in CODECS}

    @property
    def stamped(self) -> str:
        return f"{self.prefix}stamped"

    @property
    def transfers(self) -> str:
        return f"{self.prefix}transfers"

    @property
    def inventory(self) -> str:
        return f"{self.prefix}inventory"

    @property
    def topics(self) -> list[str]:
        return [*self.event_topics, self.stamped, self.transfers, self.inventory]


class RecordSource:
    """Records of a workload, one after the other; `taken` is the last serial, and none is given twice."""

    def __init__(self, workload: Workload) -> None:
        self._random = random.Random(workload.seed)
        self.taken = 0
        self._started_ms = workload.started_ms
        self._fragments = [self._fragment() for _ in range(_FRAGMENTS)]

    def take(self, topic: str, wanted: int) -> Iterator[Record]:
        """Records with keys, null keys, null values and headers in all forms."""
        for serial in self._serials(wanted):
            key = None if serial % 7 == 0 else b"key-%d" % (serial % 997)
            yield self._record(topic, serial, key, is_null=key is not None and serial % 101 == 5)

    def overwrite(self, topic: str, wanted: int, *, keys: int) -> Iterator[Record]:
        """Records of which two in three overwrite one of `keys` keys; the others are there to stay."""
        for serial in self._serials(wanted):
            key = b"once-%d" % serial if serial % 3 == 0 else b"hot-%d" % self._random.randrange(keys)
            yield self._record(topic, serial, key, is_null=serial % 211 == 1)

    def partition(self) -> int:
        """Partitions get uneven shares."""
        return self._random.choice((0, 0, 0, 1, 1, 2))

    def _serials(self, wanted: int) -> Iterator[int]:
        for _ in range(wanted):
            self.taken += 1
            yield self.taken

    def _record(self, topic: str, serial: int, key: bytes | None, *, is_null: bool) -> Record:
        fragment = self._fragments[self._random.randrange(_FRAGMENTS)]
        value = None if is_null else b"%s #%d %s" % (topic.encode(), serial, fragment)
        headers = _headers(serial) if is_null or serial % 5 == 0 else ()
        timestamp_ms = self._started_ms + serial + self._random.randrange(_JITTER_MS)
        return Record(key, value, headers, timestamp_ms)

    def _fragment(self) -> bytes:
        return " ".join(self._random.choices(_WORDS, k=self._random.randrange(3, 24))).encode()


def _headers(serial: int) -> Headers:
    number = b"%d" % serial
    forms: tuple[Headers, ...] = (
        (("serial", number),),
        (("trace", b"b"), ("serial", number), ("trace", b"a"), ("trace", b"b")),
        (("empty", b""), ("serial", number), ("absent", None)),
    )
    return forms[serial % len(forms)]


def create_topics(
    servers: str, topics: Sequence[str], *, partitions: int, configuration: Mapping[str, str] | None = None
) -> None:
    """Create topics that are not there, and wait until the cluster has them."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    wanted = [NewTopic(topic, partitions, config=dict(configuration or {})) for topic in topics]
    for created in admin.create_topics(wanted).values():
        try:
            created.result(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def produce_events(
    servers: str, workload: Workload, source: RecordSource, on_progress: Callable[[], None]
) -> None:
    """Fill one topic per codec, and the one whose log stamps the times; `on_progress` is called after each slice."""
    create_topics(servers, list(workload.event_topics), partitions=PARTITIONS)
    stamping = {"message.timestamp.type": "LogAppendTime"}
    create_topics(servers, [workload.stamped], partitions=PARTITIONS, configuration=stamping)
    for topic, codec in {**workload.event_topics, workload.stamped: "lz4"}.items():
        delivery = Delivery(servers, {"compression.type": codec})
        for wanted in _slices(workload.records_per_topic):
            for record in source.take(topic, wanted):
                delivery.send(topic, source.partition(), record)
            on_progress()
        delivery.finish()


def _slices(records: int) -> Iterator[int]:
    for taken in range(0, records, SLICE):
        yield min(SLICE, records - taken)


class Delivery:
    """A producer that does not lose a failure: whatever was refused is raised at the end."""

    def __init__(self, servers: str, properties: Mapping[str, str]) -> None:
        self.acknowledged = 0
        self._failure: KafkaError | None = None
        self.producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 10,
                "batch.num.messages": 500,
                "queue.buffering.max.messages": 1_000_000,
                "on_delivery": self._delivered,
                "log_level": 0,
                **properties,
            }
        )

    def send(self, topic: str, partition: int, record: Record) -> None:
        self.producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )

    def finish(self) -> None:
        """Wait until everything sent so far was acknowledged."""
        left = self.producer.flush(TIMEOUT_S)
        if left or self._failure is not None:
            raise ClusterUnavailableError(
                f"{left} records were not acknowledged; first refusal: {self._failure}"
            )

    def _delivered(self, failure: KafkaError | None, _message: Message) -> None:
        self._failure = self._failure or failure
        self.acknowledged += failure is None
