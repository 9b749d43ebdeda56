"""A real MirrorMaker 2, as a process of its own."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ledger.jvm import check_java
from ledger.sandbox.brokers import QUICK_JVM, kafka_jars
from tests.support.drivers import ended_afterwards

_OWN_TOPICS = (
    *("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"),
    *("offset.storage", "status.storage", "config.storage"),
)
_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"


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
    file = folder / "maker.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()), encoding="utf-8")
    classpath = os.pathsep.join(str(jar) for jar in kafka_jars())
    command = [str(check_java()), *jvm, "-cp", classpath, _MAIN, str(file)]
    with ended_afterwards(command, folder / "maker.log"):
        yield
