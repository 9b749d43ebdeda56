"""Loopback ports for brokers.

They are chosen below the range from which the kernel takes ports for outgoing connections: a broker that
was killed and is started again finds its port still free.
"""

import random
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from ledger.errors import SetupError
from ledger.sandbox.properties import FarPorts, NodePorts

LOWEST_PORT = 10_000
DEFAULT_EPHEMERAL_START = 32_768
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
PORTS_OF_A_NODE = 5


def choose(
    clusters: Sequence[str], nodes: int, *, with_far: Collection[str] = ()
) -> dict[str, tuple[NodePorts, ...]]:
    """Ports for so many nodes, numbered from 1, of each cluster; all free at the moment."""
    free = iter(free_ports(len(clusters) * nodes * PORTS_OF_A_NODE))
    return {
        alias: tuple(_of_node(number, free, has_far=alias in with_far) for number in range(1, nodes + 1))
        for alias in clusters
    }


def _of_node(node_id: int, free: Iterator[int], *, has_far: bool) -> NodePorts:
    client, internal, controller, listens, advertised = (next(free) for _ in range(PORTS_OF_A_NODE))
    far = FarPorts(listens, advertised) if has_far else None
    return NodePorts(node_id, client, internal, controller, far)


def free_ports(wanted: int) -> list[int]:
    """Different ports that can be bound on loopback."""
    chosen: list[int] = []
    with ExitStack() as held:  # all are held until all are found, so that none is found twice
        for port in _candidates():
            if len(chosen) == wanted:
                break
            listener = held.enter_context(socket.socket())
            if _binds(listener, port):
                chosen.append(port)
    if len(chosen) < wanted:
        raise SetupError(f"{wanted} free loopback ports are needed, found {len(chosen)}")
    return chosen


def _candidates() -> Iterator[int]:
    ports = list(range(LOWEST_PORT, max(_ephemeral_start(), LOWEST_PORT + 1_000)))
    random.shuffle(ports)
    yield from ports


def _ephemeral_start() -> int:
    if not EPHEMERAL_RANGE.exists():
        return DEFAULT_EPHEMERAL_START
    return int(EPHEMERAL_RANGE.read_text().split()[0])


def _binds(listener: socket.socket, port: int) -> bool:
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
