"""What the sandbox remembers between calls: addresses, identities and processes, in one JSON file."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter

from ledger.sandbox.processes import Process, is_paused, is_running
from ledger.sandbox.properties import FarPorts, ListenerSecurity, NodePorts

STATE_FILE = "sandbox.json"
NEWEST = "4.3.0"
"""The release of Kafka that brokers are of unless another one is asked for."""


class BrokerState(StrEnum):
    """What a broker's process does at the moment."""

    RUNNING = "running"
    PAUSED = "paused"  # stopped by SIGSTOP: holds its connections and answers nothing
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class SandboxBroker:
    """One broker as a user sees it; `pid` is None when it is dead, `far` when no such listener was asked for."""

    node_id: int
    port: int
    pid: int | None
    state: BrokerState
    far: FarPorts | None = None


@dataclass(frozen=True, slots=True)
class SandboxCluster:
    """One cluster as a user sees it."""

    alias: str
    bootstrap_servers: str
    cluster_id: str
    brokers: tuple[SandboxBroker, ...]


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One broker as it is remembered; `process` is the last one that was started for it."""

    ports: NodePorts
    process: Process | None = None

    @property
    def live(self) -> Process | None:
        """Its process, if that runs."""
        return self.process if self.process is not None and is_running(self.process) else None


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """One cluster as it is remembered."""

    cluster_id: str
    nodes: tuple[NodeRecord, ...]
    security: ListenerSecurity
    overrides: Mapping[str, str] = field(default_factory=dict)
    release: str = NEWEST

    def with_process(self, node_id: int, process: Process) -> "ClusterRecord":
        """The same cluster after `process` was started for a node."""
        nodes = (
            replace(node, process=process) if node.ports.node_id == node_id else node for node in self.nodes
        )
        return replace(self, nodes=tuple(nodes))


Records = dict[str, ClusterRecord]  # by alias, in the order in which they were asked for
_RECORDS = TypeAdapter(Records)


def load(root: Path) -> Records | None:
    """What is remembered under `root`; None when there is no sandbox."""
    try:
        text = (root / STATE_FILE).read_text()
    except FileNotFoundError:
        return None
    return _RECORDS.validate_json(text)


def save(root: Path, records: Records) -> None:
    """Replace the state file at once, so that a reader never sees half of it."""
    scratch = root / f"{STATE_FILE}.new"
    scratch.write_bytes(_RECORDS.dump_json(records, indent=2))
    os.replace(scratch, root / STATE_FILE)


def view(alias: str, record: ClusterRecord) -> SandboxCluster:
    """A remembered cluster with what its processes do now."""
    return SandboxCluster(
        alias=alias,
        bootstrap_servers=",".join(f"127.0.0.1:{node.ports.client}" for node in record.nodes),
        cluster_id=record.cluster_id,
        brokers=tuple(_view_node(node) for node in record.nodes),
    )


def _view_node(node: NodeRecord) -> SandboxBroker:
    process, ports = node.live, node.ports
    if process is None:
        return SandboxBroker(ports.node_id, ports.client, None, BrokerState.DEAD, ports.far)
    state = BrokerState.PAUSED if is_paused(process) else BrokerState.RUNNING
    return SandboxBroker(ports.node_id, ports.client, process.pid, state, ports.far)
