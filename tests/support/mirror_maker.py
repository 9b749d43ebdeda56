"""A real MirrorMaker 2, as a process of its own: dedicated, or as connectors of Kafka Connect."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ledger.jvm import check_java
from ledger.sandbox.brokers import QUICK_JVM, kafka_jars
from ledger.sandbox.ports import free_ports
from tests.support.drivers import ended_afterwards

_OWN_TOPICS = (
    *("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"),
    *("offset.storage", "status.storage", "config.storage"),
)
_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_WORKER = "org.apache.kafka.connect.cli.ConnectStandalone"


@contextmanager
def mirror_maker(
    servers: Mapping[str, str],
    topics: str,
    folder: Path,
    *,
    jvm: tuple[str, ...] = (*QUICK_JVM, "-Xmx512m"),
    more: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Mirrors `topics` (a pattern) from the first of two clusters to the second while the body runs, then stops.

    `more`: further properties.
    """
    source, target = servers
    properties = {
        "clusters": f"{source},{target}",
        **{f"{alias}.bootstrap.servers": at for alias, at in servers.items()},
        f"{source}->{target}.enabled": "true",
        f"{source}->{target}.topics": topics,
        f"{target}->{source}.enabled": "false",
        "tasks.max": "2",
        "refresh.topics.interval.seconds": "2",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "dedicated.mode.enable.internal.rest": "false",
        "replication.factor": "1",
        **{f"{name}.replication.factor": "1" for name in _OWN_TOPICS},
        **(more or {}),
    }
    text = "".join(f"{key} = {value}\n" for key, value in properties.items())
    with maker_of(text, folder, jvm=jvm):
        yield


@contextmanager
def maker_of(
    properties: str, folder: Path, *, jvm: tuple[str, ...] = (*QUICK_JVM, "-Xmx512m")
) -> Iterator[None]:
    """Runs with a file of properties while the body runs, then stops."""
    file = folder / "maker.properties"
    file.write_text(properties, encoding="utf-8")
    with ended_afterwards([*_java(jvm), _MAIN, str(file)], folder / "maker.log"):
        yield


@contextmanager
def connectors_of(text: str, target: str, folder: Path) -> Iterator[None]:
    """A worker of Kafka Connect beside a target, with the connectors of a list in JSON, while the body runs."""
    [port] = free_ports(1)
    worker = {
        "bootstrap.servers": target,
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "offset.storage.file.filename": str(folder / "worker.offsets"),
        "listeners": f"http://127.0.0.1:{port}",
    }
    file = folder / "worker.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in worker.items()), encoding="utf-8")
    connectors = []
    for connector in json.loads(text):
        connectors.append(folder / f"{connector['name']}.json")
        connectors[-1].write_text(json.dumps(connector), encoding="utf-8")
    jvm = (*QUICK_JVM, "-Xmx512m")
    command = [*_java(jvm), _WORKER, str(file), *map(str, connectors)]
    with ended_afterwards(command, folder / "worker.log"):
        yield


def _java(jvm: tuple[str, ...]) -> list[str]:
    classpath = os.pathsep.join(str(jar) for jar in kafka_jars())
    return [str(check_java()), *jvm, "-cp", classpath]
