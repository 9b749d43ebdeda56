"""Members of share groups and of streams groups."""

import struct
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from ledger.kafka.connection import BrokerConnection, parse_addresses


@contextmanager
def share_consumer(servers: str, group: str, topic: str) -> Iterator[ShareConsumer]:
    """A member that has subscribed."""
    setting = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[setting])
    client_of_groups = AdminClient({"bootstrap.servers": servers})
    client_of_groups.incremental_alter_configs([resource])[resource].result(30)
    client = ShareConsumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    client.subscribe([topic])
    try:
        yield client
    finally:
        client.close()


_KEY = 88
_JOIN, _LEAVE = 0, -1
_NULL, _EMPTY, _NO_TAGS, _NO_STRUCT = b"\x00", b"\x01", b"\x00", b"\xff"
_REBALANCE_TIMEOUT_MS = 10_000


@contextmanager
def streams_member(servers: str, group: str, topic: str) -> Iterator[None]:
    """It has joined, and leaves at the end; it has to send no heartbeat for `group.streams.session.timeout.ms`."""
    member = str(uuid.uuid4())
    _beat(servers, group, member, _JOIN, _topology(topic))
    try:
        yield
    finally:
        _beat(servers, group, member, _LEAVE, _NO_STRUCT)


def _beat(servers: str, group: str, member: str, epoch: int, topology: bytes) -> None:
    connection = BrokerConnection(parse_addresses(servers)[0], {}, timeout_s=10)
    tasks = _EMPTY * 3
    parts = [
        struct.pack(">hhihs", _KEY, 0, 1, 1, b"t") + _NO_TAGS,
        _string(group) + _string(member) + struct.pack(">ii", epoch, 0),
        _NULL + _NULL + struct.pack(">i", _REBALANCE_TIMEOUT_MS),  # neither instance nor rack
        topology + tasks + _string("process"),
        _NO_STRUCT
        + _NULL * 3
        + struct.pack(">?", False)
        + _NO_TAGS,  # endpoint, tags of the client, offsets of tasks
    ]
    body = b"".join(parts)
    try:
        connection.socket.sendall(struct.pack(">i", len(body)) + body)
        answer = connection.socket.recv(65536)
    finally:
        connection.close()
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 1 + 4)  # size, correlation id, tags, throttle time
    assert error == 0, answer


def _topology(topic: str) -> bytes:
    """One subtopology that reads the topic."""
    topics = _array([_string(topic)])
    subtopology = _string("0") + topics + _EMPTY * 5 + _NO_TAGS
    return b"\x01" + struct.pack(">i", 0) + _array([subtopology]) + _NO_TAGS


def _string(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def _array(elements: Iterable[bytes]) -> bytes:
    found = list(elements)
    return bytes([len(found) + 1]) + b"".join(found)
