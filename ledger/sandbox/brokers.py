"""One broker: its folder, its launch, and the proof that it serves.

A broker is ready when it answers a Metadata request itself and that answer names every node of the
cluster that is expected to run. An open port proves less: it opens long before requests are served.
"""

import os
import subprocess
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ledger import jvm
from ledger.errors import ClusterUnavailableError, MirrorLedgerError
from ledger.sandbox.processes import Process, is_running, spawn
from ledger.sandbox.properties import ZOOKEEPER, NodePorts, render, server_properties
from ledger.sandbox.state import NEWEST, ClusterRecord

KAFKA = jvm.JarSet(
    name=f"kafka-{NEWEST}",
    artifacts=(
        jvm.Artifact("org.apache.kafka", "kafka_2.13", NEWEST),
        jvm.Artifact("org.apache.kafka", "connect-mirror", NEWEST),
        jvm.Artifact("org.apache.kafka", "kafka-tools", NEWEST),
        jvm.Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ),
    minimum_jars=80,
)
"""Kafka's broker, tools and MirrorMaker."""
QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Duser.timezone=UTC")
KAFKA_CLASSES = "kafka"
HEAP_OF_ONE, HEAP_OF_SEVERAL = "-Xmx256m", "-Xmx384m"
FORMAT_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 2.0
POLL_S = 0.1
LOG_TAIL_LINES = 15

LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.stdout.ref = STDOUT
appender.stdout.type = Console
appender.stdout.name = STDOUT
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
"""
LOG4J_1 = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_WITH_LOG4J_1 = ("2.", "3.")


class BrokerFailedError(MirrorLedgerError):
    """A broker could not be formatted or ended while it was waited for."""


@dataclass(frozen=True, slots=True)
class BrokerFolder:
    """Where one node keeps its data, configuration and log."""

    path: Path

    @property
    def data(self) -> Path:
        """The one log directory of the node."""
        return self.path / "data"

    @property
    def properties(self) -> Path:
        """The rendered server properties."""
        return self.path / "server.properties"

    @property
    def log(self) -> Path:
        """All output of the broker, over restarts."""
        return self.path / "server.log"

    @property
    def log_settings(self) -> Path:
        """The log4j configuration."""
        return self.path / "log4j2.properties"

    @property
    def log_settings_1(self) -> Path:
        """The same for brokers before 4.0."""
        return self.path / "log4j.properties"

    def tail(self) -> str:
        """The end of the broker's log, for an error."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-LOG_TAIL_LINES:]) or "(the broker's log is empty)"


def kafka_jars(release: str = NEWEST) -> list[Path]:
    """The jars of a release, each in a folder of its own; fetched at the first call on a machine."""
    return jvm.fetched(KAFKA if release == NEWEST else _broker_alone(release))


def _broker_alone(release: str) -> jvm.JarSet:
    """A broker of another release, with what it writes its log by."""
    logs = jvm.Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3")
    if release.startswith(_WITH_LOG4J_1):
        logs = jvm.Artifact("org.slf4j", "slf4j-reload4j", "1.7.36")
    broker = jvm.Artifact("org.apache.kafka", "kafka_2.13", release)
    return jvm.JarSet(f"kafka-{release}", (broker, logs), minimum_jars=30)


def launch(folder: BrokerFolder, ports: NodePorts, cluster: ClusterRecord) -> Process:
    """Start a broker on its ports and data; a new one is formatted first."""
    _write_configuration(folder, ports, cluster)
    release = cluster.release
    if ZOOKEEPER not in cluster.overrides and not (folder.data / "meta.properties").exists():
        _format(folder, cluster)
    heap = HEAP_OF_ONE if len(cluster.nodes) == 1 else HEAP_OF_SEVERAL
    classes = jvm.options(KAFKA_CLASSES, kafka_jars()) if release == NEWEST else ()
    command = [*_java(folder, release, heap, classes), "kafka.Kafka", str(folder.properties)]
    return spawn(command, folder.log, os.environ)


def answers(ports: NodePorts, expected: Collection[int]) -> bool:
    """Whether the broker serves, and sees all the expected nodes."""
    admin = AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{ports.internal}",
            "log_level": 0,  # refused connections are what this waits through
            "socket.connection.setup.timeout.ms": 2000,
        }
    )
    try:
        metadata = admin.list_topics(timeout=ANSWER_TIMEOUT_S)
    except KafkaException:
        return False
    return set(expected) <= set(metadata.brokers)


def wait_until_ready(
    folder: BrokerFolder, ports: NodePorts, process: Process, expected: Collection[int], deadline_s: float
) -> None:
    """Wait for `answers`, up to a deadline on the monotonic clock."""
    name = f"broker {ports.node_id} on port {ports.client}"
    while not answers(ports, expected):
        if not is_running(process):
            raise BrokerFailedError(
                f"{name} ended while starting; its log ends:", *folder.tail().splitlines()
            )
        if time.monotonic() > deadline_s:
            raise ClusterUnavailableError(
                f"{name} was not ready in time; its log ends:", *folder.tail().splitlines()
            )
        time.sleep(POLL_S)


def _write_configuration(folder: BrokerFolder, ports: NodePorts, cluster: ClusterRecord) -> None:
    folder.path.mkdir(parents=True, exist_ok=True)
    nodes = [node.ports for node in cluster.nodes]
    properties = server_properties(ports, nodes, str(folder.data), cluster.security, cluster.overrides)
    folder.properties.write_text(render(properties))
    folder.log_settings.write_text(LOG4J)
    folder.log_settings_1.write_text(LOG4J_1)


def _format(folder: BrokerFolder, cluster: ClusterRecord) -> None:
    options = ["--cluster-id", cluster.cluster_id, "--config", str(folder.properties), "--ignore-formatted"]
    classes = jvm.archived(KAFKA_CLASSES, kafka_jars()) if cluster.release == NEWEST else ()
    java = _java(folder, cluster.release, HEAP_OF_ONE, classes)
    command = [*java, "kafka.tools.StorageTool", "format", *options]
    run = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FORMAT_TIMEOUT_S,
        check=False,
    )
    if run.returncode != 0:
        raise BrokerFailedError(
            f"cannot format {folder.data}, no broker was started:", *run.stdout.strip().splitlines()
        )


def _java(folder: BrokerFolder, release: str, heap: str, classes: Sequence[str]) -> list[str]:
    jars = os.pathsep.join(str(jar) for jar in kafka_jars(release))
    logging = (
        f"-Dlog4j2.configurationFile={folder.log_settings}",
        f"-Dlog4j.configuration=file:{folder.log_settings_1}",
    )
    return [str(jvm.check_java()), heap, *QUICK_JVM, *classes, *logging, "-cp", jars]
