"""A real MirrorMaker 2, as a process of its own: dedicated, or as connectors of Kafka Connect."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger.jvm import Artifact, JarSet, archived, check_java, fetched
from ledger.sandbox.brokers import KAFKA_CLASSES, QUICK_JVM, kafka_jars
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
    properties: str,
    folder: Path,
    *,
    jvm: tuple[str, ...] = (*QUICK_JVM, "-Xmx512m"),
    release: str | None = None,
) -> Iterator[None]:
    """Runs with a file of properties while the body runs, then stops; `release`: another than the newest."""
    file = folder / "maker.properties"
    file.write_text(properties, encoding="utf-8")
    with ended_afterwards([*_java(jvm, release), _MAIN, str(file)], folder / "maker.log"):
        yield


@contextmanager
def connectors_of(
    connectors: Sequence[Mapping[str, Any]], target: str, folder: Path, *, release: str | None = None
) -> Iterator[None]:
    """A worker of Kafka Connect beside a target, with connectors (`name`, `config`), while the body runs."""
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
    files = []
    for connector in connectors:
        files.append(folder / f"{connector['name']}.json")
        files[-1].write_text(json.dumps(connector), encoding="utf-8")
    command = [*_java((*QUICK_JVM, "-Xmx512m"), release), _WORKER, str(file), *map(str, files)]
    with ended_afterwards(command, folder / "worker.log"):
        yield


# -- Resources of Strimzi --------------------------------------------------------------------------
# No operator runs here: these are the connectors that it makes of a resource, by its documentation.

_CONNECTORS = {
    "sourceConnector": "MirrorSourceConnector",
    "checkpointConnector": "MirrorCheckpointConnector",
    "heartbeatConnector": "MirrorHeartbeatConnector",
}
_PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsBlacklistPattern": "groups.exclude",
}


def connectors_of_resource(spec: Mapping[str, Any], more: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Of the `spec` of a `KafkaMirrorMaker2`, of either version, without logins; `more`: of each connector besides."""
    clusters = {one["alias"]: one for one in spec.get("clusters", [])}
    made: list[Mapping[str, Any]] = []
    for mirror in spec["mirrors"]:
        source = mirror["source"] if "source" in mirror else clusters[mirror["sourceCluster"]]
        target = spec["target"] if "target" in spec else clusters[mirror["targetCluster"]]
        for kind, name in _CONNECTORS.items():
            if kind not in mirror:
                continue
            config = {
                "connector.class": f"org.apache.kafka.connect.mirror.{name}",
                **_cluster("source", source),
                **_cluster("target", target),
                **{key: mirror[pattern] for pattern, key in _PATTERNS.items() if pattern in mirror},
                **({"tasks.max": mirror[kind]["tasksMax"]} if "tasksMax" in mirror[kind] else {}),
                **mirror[kind].get("config", {}),
                **more,
            }
            text = {
                key: str(value).lower() if isinstance(value, bool) else str(value)
                for key, value in config.items()
            }
            made.append({"name": f"{source['alias']}--{target['alias']}.{name}", "config": text})
    return made


def _cluster(side: str, cluster: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{side}.cluster.alias": cluster["alias"],
        f"{side}.cluster.bootstrap.servers": cluster["bootstrapServers"],
        **{f"{side}.cluster.{key}": value for key, value in cluster.get("config", {}).items()},
    }


def _java(jvm: tuple[str, ...], release: str | None = None) -> list[str]:
    jars = kafka_jars() if release is None else fetched(_makers_alone(release))
    return [str(check_java()), *jvm, *archived(KAFKA_CLASSES, jars), "-cp", os.pathsep.join(map(str, jars))]


def _makers_alone(release: str) -> JarSet:
    """MirrorMaker of another release before 4.0, with what it writes its log by, and Strimzi's policies."""
    maker = Artifact("org.apache.kafka", "connect-mirror", release)
    log = Artifact("org.slf4j", "slf4j-reload4j", "1.7.36")
    policies = Artifact("io.strimzi", "mirror-maker-2-extensions", "1.2.0")
    return JarSet(f"mirror-maker-{release}", (maker, log, policies), minimum_jars=30)
