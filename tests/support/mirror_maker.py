"""A real MirrorMaker 2 process, from the jars that the sandbox's brokers come with."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ledger.jvm import check_java
from ledger.sandbox.brokers import QUICK_JVM, kafka_jars

_OWN_TOPICS = (
    *("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"),
    *("offset.storage", "status.storage", "config.storage"),
)
_STOPPED_WITHIN_S = 60


@contextmanager
def mirror_maker(servers: Mapping[str, str], topics: str, folder: Path) -> Iterator[None]:
    """Mirrors `topics` (a pattern) from east to west as `east.TOPIC` while the block runs, then stops."""
    properties = {
        "clusters": "east,west",
        "east.bootstrap.servers": servers["east"],
        "west.bootstrap.servers": servers["west"],
        "east->west.enabled": "true",
        "east->west.topics": topics,
        "west->east.enabled": "false",
        "tasks.max": "2",
        "refresh.topics.interval.seconds": "2",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "dedicated.mode.enable.internal.rest": "false",
        "replication.factor": "1",
        **{f"{name}.replication.factor": "1" for name in _OWN_TOPICS},
    }
    file = folder / "maker.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()), encoding="utf-8")
    classpath = os.pathsep.join(str(jar) for jar in kafka_jars())
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    command = [str(check_java()), *QUICK_JVM, "-Xmx512m", "-cp", classpath, main, str(file)]
    with (folder / "maker.log").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(_STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
