"""Topics as clusters have them that nobody set up for a mirror: drawn by chance, created, filled and written on."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from ledger.sandbox.log_gaps import configure
from ledger.sandbox.reading import Headers, Partition, Record, ends
from ledger.sandbox.state import NEWEST
from ledger.sandbox.workload import CODECS, TIMEOUT_S, Delivery
from tests.support.releases import OLD, WITH_ZOOKEEPER

SOURCE_LIMIT = 4 * 1024 * 1024
"""`message.max.bytes` of the source's brokers; the target has its release's default."""
PATIENT = {"broker.session.timeout.ms": "12000"}
"""Brokers that are starved on a busy machine are not fenced for it."""
SOURCE_SETTINGS = {
    **PATIENT,
    "message.max.bytes": str(SOURCE_LIMIT),
    "replica.fetch.max.bytes": str(SOURCE_LIMIT),
}
_DAY_MS = 86_400_000


class Kind(StrEnum):
    """What is special about the records of a topic."""

    EVENTS = "events"  # keys, none, headers, null values
    STAMPED = "stamped"  # LogAppendTime
    BACKDATED = "backdated"  # by decades, and ahead of now where the source takes it
    LARGE = "large"  # records and batches above the target's default limit, and the topic says so
    TOO_LARGE = "too-large"  # the same, and the broker alone allows it
    COMPACTED = "compacted"  # keys that overwrite each other, tombstones, a cleaner at work
    LATE_COMPACTED = "late-compacted"  # keyless records from before it was compacted
    TRANSACTIONS = "transactions"  # committed and aborted in turn
    OPEN = "open"  # one transaction stays open, and others write behind it
    EMPTY = "empty"
    CUT = "cut"  # records deleted from its beginning
    EXPIRING = "expiring"  # retention that is short, old records
    RECREATED = "recreated"  # deleted and created again during the life
    GROWING = "growing"  # more partitions during the life


_WEIGHTS = {
    **dict.fromkeys(Kind, 4),
    Kind.EVENTS: 20,
    Kind.EMPTY: 8,
    Kind.TRANSACTIONS: 8,
    Kind.OPEN: 1,
    Kind.LARGE: 2,
    Kind.TOO_LARGE: 2,
    Kind.RECREATED: 2,
}
SETTINGS_OF_KIND: Mapping[Kind, Mapping[str, str]] = {
    Kind.STAMPED: {"message.timestamp.type": "LogAppendTime"},
    Kind.LARGE: {"max.message.bytes": str(SOURCE_LIMIT)},
    Kind.COMPACTED: {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "1000",
    },
    Kind.EXPIRING: {"retention.ms": "60000", "segment.ms": "2000"},
}
_SETTINGS: Mapping[str, Sequence[str]] = {
    "retention.ms": ("-1", "864000000"),
    "retention.bytes": ("-1", "1073741824"),
    "segment.bytes": ("1048576", "268435456"),
    "segment.index.bytes": ("65536", "10485760"),
    "segment.jitter.ms": ("0", "1000"),
    "index.interval.bytes": ("4096", "1024"),
    "flush.messages": ("1000", "9223372036854775807"),
    "flush.ms": ("100000",),
    "file.delete.delay.ms": ("1000", "60000"),
    "preallocate": ("false", "true"),
    "unclean.leader.election.enable": ("true", "false"),
    "compression.type": ("producer", "gzip", "zstd", "lz4", "snappy", "uncompressed"),
    "min.insync.replicas": ("1", "2"),  # the second takes no record where there is one broker
    "leader.replication.throttled.replicas": ("*",),
    "max.compaction.lag.ms": ("9223372036854775807", "3600000"),
}
_BEFORE_4 = {"segment.bytes": ("65536", "1048576")}
"""The first value is refused by 4.0 and later."""
_OF_RELEASE: Mapping[str, Mapping[str, Sequence[str]]] = {
    WITH_ZOOKEEPER: {
        **_BEFORE_4,
        "message.format.version": ("2.8-IV1",),
        "message.downconversion.enable": ("true", "false"),
    },
    OLD: {
        **_BEFORE_4,
        "message.timestamp.difference.max.ms": (str(2**63 - 1), str(30_000 * _DAY_MS)),
        "message.downconversion.enable": ("true", "false"),
    },
    NEWEST: {
        "message.timestamp.before.max.ms": (str(2**63 - 1), str(30_000 * _DAY_MS)),
        "compression.zstd.level": ("3", "9"),
        "compression.gzip.level": ("1",),
    },
}
"""Settings that not every release has, by release."""
RELEASES = tuple(_OF_RELEASE)
_STEMS = (
    "orders",
    "Orders",
    "payments.settled",
    "payments_v2",
    "a",
    "x-y",
    "user.events.v1",
    "audit_log",
    "9",
    "-",
)
_ODD_NAMES = (
    *("billing-internal", "customer.internal", "mm2-migration", "mm2-internal", "west", "west.invoices"),
    *(
        "__shadow",
        "__debezium-heartbeat.shop",
        "heartbeats",
        "orders.heartbeats",
        "_schemas",
        "connect-configs",
    ),
    *(
        "connect-offsets",
        "connect-status",
        "app-KSTREAM-AGGREGATE-0000000003-changelog",
        "orders-repartition",
    ),
    *(
        "mm2-offset-syncs.east.internal",
        "west.checkpoints.internal",
        "...",
        "..a",
        "_",
        "__",
        "-leading-dash",
    ),
    *(
        "--help",
        "a" * 249,
        "b" * 245,
        "west.west.a",
        "east",
        "east.east",
        "UPPER.lower",
        "1.2.3",
        "orders.salvaged",
    ),
    *("dead-letters.x", "collides.here"),
)
COLLIDING_AT_TARGET = "east_collides.here"
"""Is at the target when the life begins: brokers refuse a name that differs from another by dots and underscores."""


@dataclass(frozen=True, slots=True)
class FieldTopic:
    """A topic of the source. `settings`: what is set on it when it is created."""

    name: str
    kind: Kind
    partitions: int
    settings: Mapping[str, str]
    codec: str


def drawn_topics(chance: random.Random, number: int, release: str) -> list[FieldTopic]:
    """So many topics; no two of them have names that brokers take for one."""
    names, taken = list[str](), set[str]()
    for name in _names(chance, number):
        if name.replace(".", "_") not in taken:
            taken.add(name.replace(".", "_"))
            names.append(name)
        if len(names) == number:
            break
    kinds = [*Kind, *chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=number)][:number]
    chance.shuffle(kinds)
    return [_topic(chance, name, kind, release) for name, kind in zip(names, kinds, strict=True)]


def _names(chance: random.Random, number: int) -> Iterator[str]:
    odd = list(_ODD_NAMES)
    chance.shuffle(odd)
    yield from odd[: max(number // 4, 3)]
    for serial in range(number * 2):
        yield f"{chance.choice(_STEMS)}{chance.choice('._-')}{serial}"


def _topic(chance: random.Random, name: str, kind: Kind, release: str) -> FieldTopic:
    known = {**_SETTINGS, **_OF_RELEASE.get(release, {})}
    chosen = chance.sample(sorted(known), k=chance.choice((0, 0, 1, 2, 4)))
    settings = {setting: chance.choice(known[setting]) for setting in chosen}
    if kind is Kind.EXPIRING:
        settings.pop("retention.ms", None)
    if kind in (Kind.LARGE, Kind.TOO_LARGE):
        settings.pop("segment.bytes", None)
    if kind is not Kind.EMPTY:
        settings.pop("min.insync.replicas", None)
    return FieldTopic(
        name,
        kind,
        chance.choice((1, 1, 2, 3)),
        {**settings, **SETTINGS_OF_KIND.get(kind, {})},
        chance.choice(CODECS),
    )


@dataclass
class Writers:
    """Applications of the source: what each topic gets when it is its turn. `written`: records so far, by topic."""

    servers: str
    chance: random.Random
    release: str
    written: dict[str, int] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    _serial: int = 0
    _by_codec: dict[tuple[str, bool], Delivery] = field(default_factory=dict)
    _transactional: dict[str, Producer] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    _compacted: set[str] = field(default_factory=set)

    @property
    def total(self) -> int:
        return sum(self.written.values())

    def create(self, topics: Sequence[FieldTopic]) -> None:
        """All of them, or a failure that says which one the source does not take."""
        asked = [NewTopic(one.name, one.partitions, config=dict(one.settings)) for one in topics]
        admin = self._admin()
        for first in range(0, len(asked), 50):
            for name, answer in admin.create_topics(asked[first : first + 50]).items():
                try:
                    answer.result(TIMEOUT_S)
                except KafkaException as error:
                    raise AssertionError(f"{name}: {error}") from error
        self.partitions.update({one.name: one.partitions for one in topics})

    def write(self, topic: FieldTopic, records: int) -> None:
        """About so many records of its kind."""
        if topic.kind is Kind.EMPTY:
            return
        if topic.kind in (Kind.TRANSACTIONS, Kind.OPEN):
            self._transact(topic, records)
        if topic.kind is not Kind.TRANSACTIONS:
            self._send(topic, records)

    def finish(self) -> None:
        """All is acknowledged."""
        for delivery in self._by_codec.values():
            delivery.finish()

    def disturb(self, topic: FieldTopic) -> None:
        """What an operator or the cluster does to a topic of its kind."""
        self.finish()
        admin = self._admin()
        if topic.kind is Kind.LATE_COMPACTED:
            configure(self.servers, topic.name, {"cleanup.policy": "compact"})
            self._compacted.add(topic.name)
        if topic.kind is Kind.GROWING:
            self.partitions[topic.name] += 1
            asked = NewPartitions(topic.name, self.partitions[topic.name])
            admin.create_partitions([asked])[topic.name].result(TIMEOUT_S)
            self._by_codec.clear()  # a producer finds new partitions out in minutes
        if topic.kind is Kind.CUT:
            until = {
                at: self.chance.randrange(end + 1) for at, end in ends(self.servers, [topic.name]).items()
            }
            asked_of = [ClientPartition(*at, offset) for at, offset in until.items()]
            for answer in admin.delete_records(asked_of).values():
                answer.result(TIMEOUT_S)
        if topic.kind is Kind.RECREATED:
            admin.delete_topics([topic.name])[topic.name].result(TIMEOUT_S)
            self.written.pop(topic.name, None)
            self._by_codec.clear()
            self._create_again(topic)

    def ends(self) -> dict[Partition, int]:
        """Where each log ends, of topics that the brokers tell of: not all do so at once behind a restart."""
        there = self._admin().list_topics(timeout=TIMEOUT_S).topics
        return ends(self.servers, sorted(self.partitions.keys() & there.keys()))

    def _create_again(self, topic: FieldTopic) -> None:
        """A broker that has not removed the former one yet refuses for a moment."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return self.create([topic])
            except AssertionError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.5)

    def _admin(self) -> AdminClient:
        """To be held until its answers are there."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _send(self, topic: FieldTopic, records: int) -> None:
        is_large = topic.kind in (Kind.LARGE, Kind.TOO_LARGE)
        delivery = self._delivery(topic.codec, is_large=is_large)
        for _ in range(min(records, 6) if is_large else records):
            delivery.send(topic.name, self.chance.randrange(self.partitions[topic.name]), self._record(topic))
        self.written[topic.name] = self.written.get(topic.name, 0) + records

    def _delivery(self, codec: str, *, is_large: bool) -> Delivery:
        key = codec, is_large
        if key not in self._by_codec:
            limit = {"message.max.bytes": str(SOURCE_LIMIT)} if is_large else {}
            self._by_codec[key] = Delivery(self.servers, {"compression.type": codec, **limit})
        return self._by_codec[key]

    def _transact(self, topic: FieldTopic, records: int) -> None:
        if topic.name in self._open:
            return
        producer = self._transactional.get(topic.name)
        if producer is None:
            properties = {"transactional.id": f"{topic.name}-writer", "transaction.timeout.ms": "900000"}
            producer = Producer({"bootstrap.servers": self.servers, "log_level": 0, **properties})
            producer.init_transactions(TIMEOUT_S)
            self._transactional[topic.name] = producer
        for _ in range(2):
            producer.begin_transaction()
            for _ in range(max(records // 2, 1)):
                one, at = self._record(topic), self.chance.randrange(self.partitions[topic.name])
                producer.produce(
                    topic.name, one.value, one.key, at, timestamp=one.timestamp_ms, headers=list(one.headers)
                )
            assert producer.flush(TIMEOUT_S) == 0
            if topic.kind is Kind.OPEN:
                self._open.add(topic.name)
                return
            if self.chance.random() < 0.7:
                producer.commit_transaction(TIMEOUT_S)
                self.written[topic.name] = self.written.get(topic.name, 0) + max(records // 2, 1)
            else:
                producer.abort_transaction(TIMEOUT_S)

    def _record(self, topic: FieldTopic) -> Record:
        self._serial += 1
        return Record(self._key(topic), self._value(topic), self._headers(), self._timestamp_ms(topic))

    def _key(self, topic: FieldTopic) -> bytes | None:
        if topic.kind is Kind.COMPACTED:
            return b"key-%d" % self.chance.randrange(20)
        is_keyless = topic.name not in self._compacted and self.chance.random() < 0.3
        return None if is_keyless else b"key-%d" % self._serial

    def _value(self, topic: FieldTopic) -> bytes | None:
        if topic.kind in (Kind.LARGE, Kind.TOO_LARGE) and self.chance.random() < 0.5:
            return b"#%d " % self._serial + self.chance.randbytes(
                self.chance.choice((300_000, 900_000, 2_000_000))
            )
        if self.chance.random() < (0.1 if topic.kind is Kind.COMPACTED else 0.03):
            return None
        return b"#%d %s" % (self._serial, b"x" * self.chance.choice((0, 10, 100, 1_000)))

    def _headers(self) -> Headers:
        """The serial is in each, so that no two records of a life are equal."""
        serial = b"%d" % self._serial
        return self.chance.choice(
            (
                (("n", serial),),
                (("n", serial), ("trace", b""), ("trace", None)),
                (("\u00e4", b"\xff"), ("n", serial)),
            )
        )

    def _timestamp_ms(self, topic: FieldTopic) -> int:
        now_ms = time.time_ns() // 1_000_000
        if topic.kind is Kind.BACKDATED:
            return self.chance.choice((1, now_ms - 9_000 * _DAY_MS, now_ms - _DAY_MS, now_ms))
        if topic.kind is Kind.EXPIRING:
            return now_ms - self.chance.choice((0, 3_600_000))
        return now_ms - self.chance.randrange(60_000)
