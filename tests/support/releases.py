"""Brokers of older releases of Kafka, and the ZooKeeper that those before KRaft run with."""

import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ledger import jvm
from ledger.sandbox import Sandbox
from ledger.sandbox.brokers import QUICK_JVM, kafka_jars
from ledger.sandbox.ports import free_ports
from ledger.sandbox.processes import Process, end, spawn
from ledger.sandbox.properties import ZOOKEEPER

WITH_ZOOKEEPER = "2.8.2"
OLD = "3.3.2"
BEFORE_4 = "3.9.1"
FIRST_4 = "4.0.0"
_PATIENCE_S = 30.0


@contextmanager
def old_clusters(
    folder: Path, releases: Mapping[str, str], overrides: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[Sandbox]:
    """Clusters of one broker each, by alias of these releases; 2.8 runs with a ZooKeeper of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    sandbox, keepers = Sandbox(folder / "sandbox"), list[Process]()
    given = {alias: dict((overrides or {}).get(alias, {})) for alias in releases}
    try:
        for alias, release in releases.items():
            if release == WITH_ZOOKEEPER:
                [port] = free_ports(1)
                keepers.append(_zookeeper(folder / f"zookeeper-{alias}", port))
                given[alias][ZOOKEEPER] = f"127.0.0.1:{port}"
        sandbox.up(list(releases), brokers=1, releases=releases, overrides=given)
        yield sandbox
    finally:
        sandbox.down()
        for keeper in keepers:
            end(keeper, signal.SIGKILL, _PATIENCE_S)


def _zookeeper(folder: Path, port: int) -> Process:
    folder.mkdir()
    jars = os.pathsep.join(str(jar) for jar in kafka_jars(WITH_ZOOKEEPER))
    server = "org.apache.zookeeper.server.ZooKeeperServerMain"
    quiet = "-Dzookeeper.admin.enableServer=false"
    settings = folder / "zookeeper.properties"
    settings.write_text(f"dataDir={folder / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
    command = [str(jvm.check_java()), "-Xmx64m", *QUICK_JVM, quiet, "-cp", jars, server, str(settings)]
    process = spawn(command, folder / "server.log", os.environ)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
