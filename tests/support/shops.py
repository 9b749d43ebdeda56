"""Applications on real clusters: they number what they write, and write down what they read."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from ledger.sandbox.workload import Delivery, RecordSource, Workload


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` in a thread; it is given an event that is set when the body ends, and is waited for."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def send(servers: str, topic: str, partition: int, source: RecordSource, records: int) -> None:
    delivery = Delivery(servers, {})
    for record in source.take(topic, records):
        delivery.send(topic, partition, record)
    delivery.finish()


def small_source(prefix: str) -> RecordSource:
    return RecordSource(Workload(records_per_topic=0, started_ms=time.time_ns() // 1_000_000, prefix=prefix))


def transaction(servers: str, topic: str, transactional_id: str, *values: bytes) -> Producer:
    """Open, with all of its records appended; the broker ends it not before busy machines have made a plan."""
    properties = {"transactional.id": transactional_id, "transaction.timeout.ms": "600000"}
    producer = Producer({"bootstrap.servers": servers, **properties})
    producer.init_transactions(10)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(10) == 0
    return producer


# -- Under load ------------------------------------------------------------------------------------

_POLL_S = 0.2


@dataclass
class Shop:
    """Writes one record after the other to a topic of a cluster, wherever it is told to; `written`: acknowledged ones.

    `refused`: records that the cluster did not take within `gives_up_ms`.
    """

    topic: str
    partitions: int
    gives_up_ms: int = 8000
    written: list[bytes] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)
    _number: int = 0

    @contextmanager
    def selling(
        self, servers: str, *, pause_s: float = 0.005, properties: Mapping[str, str] | None = None
    ) -> Iterator[None]:
        """Write beside the body, until it ends and all that was written is acknowledged or refused."""
        stop = threading.Event()
        writer = threading.Thread(
            target=self._sell, args=(servers, stop, pause_s, properties or {}), daemon=True
        )
        writer.start()
        try:
            yield
        finally:
            stop.set()
            writer.join(30)
            assert not writer.is_alive()

    def sell(self, servers: str, records: int, **properties: str) -> None:
        """So many records at once."""
        producer = self._producer(servers, properties)
        for _ in range(records):
            self._next(producer)
        assert producer.flush(30) == 0

    def _sell(
        self, servers: str, stop: threading.Event, pause_s: float, properties: Mapping[str, str]
    ) -> None:
        producer = self._producer(servers, properties)
        while not stop.is_set():
            self._next(producer)
            producer.poll(0)
            time.sleep(pause_s)
        producer.flush(15)

    def _producer(self, servers: str, properties: Mapping[str, str]) -> Producer:
        return Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": "true",
                "message.timeout.ms": str(self.gives_up_ms),
                **properties,
            }
        )

    def _next(self, producer: Producer) -> None:
        value = f"{self.topic}-{self._number}".encode()
        self._number += 1
        try:
            producer.produce(
                self.topic, value, partition=self._number % self.partitions, on_delivery=self._told_of
            )
        except KafkaException:
            self.refused.append(value)  # by then the client knows that it is not let in

    def _told_of(self, error: KafkaError | None, message: object) -> None:
        value: bytes = message.value()  # type: ignore[attr-defined]  # the client has no types
        (self.written if error is None else self.refused).append(value)


@dataclass
class Desk:
    """A group that processes records and commits behind each; `processed`: values in the order of processing."""

    group: str
    processed: list[bytes] = field(default_factory=list)
    _committed: int = 0
    _assigned: set[tuple[str | None, int | None]] = field(default_factory=set)
    _committed_in: set[tuple[str | None, int | None]] = field(default_factory=set)

    def is_at_work(self, records: int) -> bool:
        """At least so many records are processed and committed, and some of each partition that it has now.

        The number alone does not say that: an answer to a fetch holds the records of one partition in a row.
        """
        return self._committed >= records and bool(self._assigned) and self._assigned <= self._committed_in

    @contextmanager
    def open(self, servers: str, topics: list[str], **properties: str) -> Iterator[None]:
        """Work beside the body; what was processed is committed when it ends."""
        stop = threading.Event()
        self._assigned, self._committed_in = set(), set()
        worker = threading.Thread(target=self._work, args=(servers, topics, stop, properties), daemon=True)
        worker.start()
        try:
            yield
        finally:
            stop.set()
            worker.join(60)
            assert not worker.is_alive()

    def _work(
        self, servers: str, topics: list[str], stop: threading.Event, properties: dict[str, str]
    ) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **properties,
            }
        )
        consumer.subscribe(topics)
        try:
            while not stop.is_set():
                messages = consumer.consume(50, timeout=_POLL_S)
                good = [message for message in messages if message.error() is None]
                self.processed += [message.value() or b"" for message in good]
                if good:
                    consumer.commit(asynchronous=False)
                    self._assigned = {(one.topic, one.partition) for one in consumer.assignment()}
                    self._committed_in |= {(one.topic(), one.partition()) for one in good}
                    self._committed = len(self.processed)
        except KafkaException:
            pass  # the cluster was killed under it: what it had processed is written down
        finally:
            consumer.close()

    @property
    def repeated(self) -> Counter[bytes]:
        return Counter({value: count - 1 for value, count in Counter(self.processed).items() if count > 1})


# -- That write what they read ---------------------------------------------------------------------


@dataclass(frozen=True)
class Workshop:
    """A group of one topic that writes to another one, wherever it is told to work."""

    group: str
    topic: str
    output: str

    def open(self, servers: str) -> AbstractContextManager[None]:
        """Work beside the body; what was read is written and committed when it ends."""
        return beside(partial(self._work, servers))

    def _work(self, servers: str, stop: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": "true"})
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not stop.is_set():
                messages = consumer.consume(10, timeout=_POLL_S)
                good = [message for message in messages if message.error() is None]
                for message in good:
                    producer.produce(self.output, message.value())
                assert producer.flush(30) == 0
                if good:
                    consumer.commit(asynchronous=False)
        except KafkaException:
            pass  # the cluster was killed under it
        finally:
            consumer.close()


# -- That contracts use ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KafkaApplications:
    """Implements `contracts.cluster_admin.Applications`."""

    bootstrap_servers: str

    def write(self, topic: str, partition: int, timestamps: Sequence[int]) -> None:
        producer = self._producer()
        for timestamp in timestamps:
            producer.produce(topic, b"value", partition=partition, timestamp=timestamp)
        assert producer.flush(10) == 0

    def begin_transaction(
        self, topic: str, partition: int, records: int, *, commits: bool = True
    ) -> Callable[[], None]:
        producer = self._producer(**{"transactional.id": topic})
        producer.init_transactions(10)
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, b"value", partition=partition)
        assert producer.flush(10) == 0
        return lambda: (producer.commit_transaction if commits else producer.abort_transaction)(10)

    def _producer(self, **settings: str) -> Producer:
        """One that sends what is produced before `flush` as one batch, however slowly it was produced."""
        return Producer(
            {"bootstrap.servers": self.bootstrap_servers, "acks": "all", "linger.ms": 5_000, **settings}
        )
