"""Server properties of sandbox brokers: small, quick to start, and quick to show what takes long elsewhere.

Every node is broker and controller in one. It listens for clients on `CLIENT`, whose security can be
chosen; brokers talk among themselves, and the sandbox with them, over the plain loopback listener
`INTERNAL`. So a cluster can be checked and stopped whatever its clients must present. A third listener,
`FAR`, is made on request: it advertises another port than its own, where the caller has a forwarder that
delays or loses what it carries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

REPLICAS_FOR_QUORUM = 3
ZOOKEEPER = "zookeeper.connect"
"""A broker that is given this property runs with ZooKeeper, which is the caller's to start."""
_OF_QUORUMS = ("process.roles", "node.id", "controller.quorum.voters", "controller.listener.names")


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """What clients must present on the `CLIENT` listener."""

    protocol: str = "PLAINTEXT"  # SASL_PLAINTEXT, SSL or SASL_SSL
    properties: Mapping[str, str] = field(default_factory=dict)  # server side: mechanisms, stores, authorizer


PLAINTEXT = ListenerSecurity()


@dataclass(frozen=True, slots=True)
class FarPorts:
    """Where a broker listens for a forwarder, and where it tells clients that the forwarder is."""

    listens: int
    advertised: int


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The loopback ports of one node, kept over restarts."""

    node_id: int
    client: int
    internal: int
    controller: int
    far: FarPorts | None = None


def server_properties(
    node: NodePorts,
    nodes: Sequence[NodePorts],
    data: str,
    security: ListenerSecurity,
    overrides: Mapping[str, str],
) -> dict[str, str]:
    """All properties of one node; security and then overrides win over what the sandbox sets."""
    found = (
        _listeners(node, nodes, security)
        | _replication(len(nodes))
        | _rack(node, nodes)
        | _quick()
        | {"node.id": str(node.node_id), "log.dirs": data}
        | dict(security.properties)
        | dict(overrides)
    )
    return _without_quorum(found) if ZOOKEEPER in overrides else found


def _without_quorum(properties: Mapping[str, str]) -> dict[str, str]:
    """The same for a broker that runs with ZooKeeper."""
    kept = {name: value for name, value in properties.items() if name not in _OF_QUORUMS}
    listeners = properties["listeners"].rpartition(",CONTROLLER://")[0]
    return kept | {"broker.id": properties["node.id"], "listeners": listeners}


def render(properties: Mapping[str, str]) -> str:
    """A Java properties file."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in sorted(properties.items()))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _listeners(node: NodePorts, nodes: Sequence[NodePorts], security: ListenerSecurity) -> dict[str, str]:
    voters = ",".join(f"{other.node_id}@127.0.0.1:{other.controller}" for other in nodes)
    listening = f"CLIENT://127.0.0.1:{node.client},INTERNAL://127.0.0.1:{node.internal}"
    advertised = listening
    if node.far is not None:
        listening += f",FAR://127.0.0.1:{node.far.listens}"
        advertised += f",FAR://127.0.0.1:{node.far.advertised}"
    return {
        "process.roles": "broker,controller",
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{listening},CONTROLLER://127.0.0.1:{node.controller}",
        "advertised.listeners": advertised,
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": (
            f"CLIENT:{security.protocol},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:PLAINTEXT"
        ),
    }


def _replication(nodes: int) -> dict[str, str]:
    replicas = str(min(nodes, REPLICAS_FOR_QUORUM))
    in_sync = "2" if nodes >= REPLICAS_FOR_QUORUM else "1"
    return _sessions(nodes) | {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _rack(node: NodePorts, nodes: Sequence[NodePorts]) -> dict[str, str]:
    """Of several nodes each is in a rack of its own, which clients may read from."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    return (
        {"broker.rack": f"rack-{node.node_id}", "replica.selector.class": selector} if len(nodes) > 1 else {}
    )


def _sessions(nodes: int) -> dict[str, str]:
    """A broker that was killed may register again only when its session has ended: 9 s by default."""
    timeout_ms = "3000" if nodes == 1 else "5000"
    return {"broker.session.timeout.ms": timeout_ms, "broker.heartbeat.interval.ms": "500"}


def _quick() -> dict[str, str]:
    return {
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        # Without anything to record the controller writes twice a second that there is nothing, and each node takes it.
        "metadata.max.idle.interval.ms": "10000",
        # Retention and compaction can be watched within seconds.
        "log.initial.task.delay.ms": "1000",
        "log.retention.check.interval.ms": "5000",
        "log.cleaner.backoff.ms": "1000",
        "log.cleaner.dedupe.buffer.size": "16777216",  # 128 MiB by default, half of the heap
    }
