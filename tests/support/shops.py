"""Applications under load: producers that number what they write, and groups that write down what they processed."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

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

    @contextmanager
    def open(self, servers: str, topics: list[str], **properties: str) -> Iterator[None]:
        """Work beside the body; what was processed is committed when it ends."""
        stop = threading.Event()
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
        except KafkaException:
            pass  # the cluster was killed under it: what it had processed is written down
        finally:
            consumer.close()

    @property
    def repeated(self) -> Counter[bytes]:
        return Counter({value: count - 1 for value, count in Counter(self.processed).items() if count > 1})
