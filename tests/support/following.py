"""Flows whose target topics follow, on real brokers: their configuration, and what clients do there."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer

from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import is_end, read_topics
from tests.support.clusters import servers_of
from tests.support.config_files import write_config

Pair = Mapping[str, SandboxCluster]
OFTEN = "round_seconds = 1\ntopic_refresh_seconds = 1\n"
"""The lines of a flow that looks at topics often."""
RENAME = """topic_naming = "rename"\nrename = [{ match = '(.*)_REPLICA', to = '\\1' }]\n"""


def name_of(kind: str) -> str:
    """A topic name that no other test has."""
    return f"{kind}-{uuid.uuid4().hex[:6]}"


def config_of(folder: Path, pair: Pair, flows: Mapping[str, str], west: str = "") -> MirrorConfig:
    """Flows by name, which look at topics often; `west` are further lines of that cluster."""
    servers = servers_of(pair)
    lines = {name: text if "round_seconds" in text else OFTEN + text for name, text in flows.items()}
    return write_config(folder, servers, lines, properties={"west": west})


def copying(topics: str, *more: str) -> str:
    """The lines of a flow that copies the topics of one pattern."""
    return "\n".join((f'topics = ["{topics}"]', *more))


@contextmanager
def admin_of(config: MirrorConfig, alias: str) -> Iterator[KafkaAdmin]:
    with closing(KafkaAdmin(alias, config.cluster(alias), SystemClock())) as admin:
        yield admin


def produce(servers: str, topic: str, *values: str, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(30) == 0


def values(servers: str, topic: str) -> list[bytes]:
    return [
        placed.record.value or b"" for records in read_topics(servers, [topic]).values() for placed in records
    ]


def copied(servers: str, topic: str) -> list[bytes]:
    """The same of a topic that a mirror may have yet to make."""
    try:
        return values(servers, topic)
    except KeyError:
        return []


def consumed(servers: str, topic: str, group: str) -> list[bytes]:
    """What the group reads, to its end, and commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    ended: set[int | None] = set()
    try:
        while not ended or len(ended) < len(consumer.assignment()):
            if (message := consumer.poll(30)) is None:
                break
            if is_end(message):
                ended.add(message.partition())
            else:
                found.append(message.value() or b"")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found
