"""What a copy task keeps open to one broker: who leads what, asked when needed, and a channel that never waits."""

import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from ssl import SSLWantReadError, SSLWantWriteError

from kafka.protocol.metadata import MetadataResponse

from ledger.errors import ClusterUnavailableError
from ledger.kafka.connection import Address, BrokerConnection
from ledger.kafka.requests import ErrorCode
from ledger.kafka.spoken import given_id

# Metadata -----------------------------------------------------------------------------------------
# Who leads which partition of one cluster, asked on a connection of its own.
#
# `MetadataReader.read` blocks until a broker answers or all have failed, so a link calls it on another
# thread; one call at a time.


@dataclass(frozen=True, slots=True)
class Leader:
    """The node that leads a partition; every new leader, the same node again included, has a new epoch."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One answer: brokers by node id, leaders by (topic id, partition), and the topic id of each name.

    A name whose topic does not exist has None; one that the broker could not judge, or gives no id of, is left out.
    `denied` are names that this principal may not describe.
    """

    addresses: Mapping[int, Address]
    leaders: Mapping[tuple[str, int], Leader]
    topic_ids: Mapping[str, str | None]
    denied: frozenset[str]


class MetadataReader:
    """Keeps its connection between calls; `connect` opens one to an address."""

    def __init__(self, connect: Callable[[Address], BrokerConnection]) -> None:
        self._connect = connect
        self._connection: BrokerConnection | None = None

    def read(self, topics: Sequence[str], addresses: Sequence[Address]) -> ClusterMetadata:
        """The first answer; the broker that answered last is asked first.

        Raises `ClusterUnavailableError` with every broker's reason when none answers.
        """
        current = [] if self._connection is None else [self._connection.address]
        reasons = []
        for address in dict.fromkeys([*current, *addresses]):
            try:
                if self._connection is None:
                    self._connection = self._connect(address)
                return read_metadata(self._connection.metadata(topics))
            except ClusterUnavailableError as error:
                self._connection = None
                reasons.append(str(error))
        raise ClusterUnavailableError("; ".join(reasons))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def read_metadata(answer: MetadataResponse) -> ClusterMetadata:
    """What a broker has answered."""
    addresses = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
    return ClusterMetadata(
        addresses=addresses,
        topic_ids={
            topic.name: given_id(topic)
            for topic in answer.topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            or (topic.error_code == 0 and given_id(topic) is not None)
        },
        denied=frozenset(
            topic.name for topic in answer.topics if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ),
        leaders={
            (topic_id, partition.partition_index): Leader(partition.leader_id, partition.leader_epoch)
            for topic in answer.topics
            if topic.error_code == 0 and (topic_id := given_id(topic)) is not None
            for partition in topic.partitions
            if partition.leader_id in addresses
        },
    )


# Channel ------------------------------------------------------------------------------------------
# A non-blocking channel to one broker: queued requests out, whole responses in.


_LENGTH = struct.Struct(">i")
_LENGTH_AND_CORRELATION = struct.Struct(">ii")
_HEAD_BYTES = _LENGTH_AND_CORRELATION.size
_WOULD_BLOCK = (BlockingIOError, SSLWantReadError, SSLWantWriteError)
_LARGE_BYTES = 32 * 1024
"""What is smaller goes to the socket with its neighbours: a call for each, and with TLS a record, would cost more."""


class Channel:
    """Owns a connection. `flush` and `receive` never wait; they raise `OSError` once the peer has closed."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.connection = connection
        self.address = connection.address
        self.socket = connection.socket
        self.socket.setblocking(False)
        self._outgoing: deque[memoryview] = deque()
        self._head = bytearray(_HEAD_BYTES)
        self._body: bytearray | None = None
        self._received = 0
        self._correlation_id = 0

    def send(self, buffers: Sequence[bytes | memoryview]) -> None:
        for is_large, neighbours in groupby(buffers, lambda buffer: len(buffer) >= _LARGE_BYTES):
            parts = list(neighbours)
            self._outgoing.extend(map(memoryview, parts if is_large else [b"".join(parts)]))
        self.flush()

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outgoing)

    def flush(self) -> None:
        """Hand to the socket what it takes now."""
        while self._outgoing:
            try:
                sent = self.socket.send(self._outgoing[0])
            except _WOULD_BLOCK:
                return
            if sent == len(self._outgoing[0]):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = self._outgoing[0][sent:]

    def receive(self) -> list[tuple[int, memoryview]]:
        """Responses complete by now: (correlation id, body after it). Bodies are writable and not shared."""
        responses = []
        while (response := self._receive_one()) is not None:
            responses.append(response)
        return responses

    def _receive_one(self) -> tuple[int, memoryview] | None:
        if self._body is None:
            if not self._fill(memoryview(self._head)):
                return None
            size, self._correlation_id = _LENGTH_AND_CORRELATION.unpack(self._head)
            self._body = bytearray(size - _LENGTH.size)
            self._received = 0
        body = memoryview(self._body)
        if not self._fill(body):
            return None
        self._body, self._received = None, 0
        return self._correlation_id, body

    def _fill(self, view: memoryview) -> bool:
        while self._received < len(view):
            try:
                count = self.socket.recv_into(view[self._received :])
            except _WOULD_BLOCK:
                return False
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            self._received += count
        return True

    def close(self) -> None:
        self.socket.close()
