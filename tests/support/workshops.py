"""An application that writes what it reads: for each record one of its value elsewhere, and then a commit."""

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, KafkaException, Producer

from tests.support.beside import beside

_POLL_S = 0.2


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
