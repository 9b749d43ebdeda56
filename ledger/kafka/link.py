"""Kept connections of a copy task to one cluster, behind `ClusterLink`.

One channel a node carries produce requests or fetches; answers of one node come in the order asked,
which is what keeps several produce requests in flight in order.
"""

import os
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from ssl import SSLWantReadError, SSLWantWriteError
from typing import Protocol, TypeVar

from kafka.protocol.metadata import MetadataResponse

from ledger.config.values import ClusterConfig
from ledger.errors import ClusterUnavailableError, ProtocolError
from ledger.facts.syncs import TopicPartition, topic_id_bytes, topic_id_text
from ledger.kafka.connection import Address, BrokerConnection, parse_addresses, resolved_properties
from ledger.kafka.copying import Completion, FetchItem, ProduceItem
from ledger.kafka.requests import (
    FETCH_BY_ID,
    FETCH_BY_NAME,
    FETCH_KEY,
    PRODUCE_BY_ID,
    PRODUCE_BY_NAME,
    PRODUCE_KEY,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ErrorCode,
    Fetched,
    FetchFrom,
    Produced,
    ProduceTo,
    TopicRef,
    fetch_request,
    parse_fetch_response,
    parse_produce_response,
    produce_request,
)

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

    A name whose topic does not exist has None; a name that the broker could not judge is left out.
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
                return _read(self._connection.metadata(topics))
            except ClusterUnavailableError as error:
                self._connection = None
                reasons.append(str(error))
        raise ClusterUnavailableError("; ".join(reasons))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read(answer: MetadataResponse) -> ClusterMetadata:
    addresses = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
    return ClusterMetadata(
        addresses=addresses,
        topic_ids={
            topic.name: topic_id_text(topic.topic_id.bytes) if topic.error_code == 0 else None
            for topic in answer.topics
            if topic.error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        },
        denied=frozenset(
            topic.name for topic in answer.topics if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ),
        leaders={
            (topic_id_text(topic.topic_id.bytes), partition.partition_index): Leader(
                partition.leader_id, partition.leader_epoch
            )
            for topic in answer.topics
            if topic.error_code == 0
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


class Channel:
    """Owns a connected socket. `flush` and `receive` never wait; they raise `OSError` once the peer has closed."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.address = connection.address
        self.socket = connection.socket
        self.socket.setblocking(False)
        self._outgoing: deque[memoryview] = deque()
        self._head = bytearray(_HEAD_BYTES)
        self._body: bytearray | None = None
        self._received = 0
        self._correlation_id = 0

    def send(self, buffers: Sequence[bytes | memoryview]) -> None:
        self._outgoing.extend(memoryview(buffer) for buffer in buffers)
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


# Broker state -------------------------------------------------------------------------------------
# What a link remembers of one broker and of one request: plain state, no IO.


FIRST_FETCH_BYTES = 256 * 1024  # until the line has shown what it delivers


@dataclass(frozen=True, slots=True)
class Api:
    """One of the two hot requests: its key, and the versions by topic name and by topic id."""

    key: int
    by_name: int
    by_id: int


FETCH = Api(FETCH_KEY, FETCH_BY_NAME, FETCH_BY_ID)
PRODUCE = Api(PRODUCE_KEY, PRODUCE_BY_NAME, PRODUCE_BY_ID)


@dataclass(slots=True)
class Waiting:
    """A request without an answer yet; `asked` keeps the order of its partitions.

    `patience_s`: how long the broker may be silent, no byte moving either way, before it counts as lost.
    `wanted_bytes`: what a full answer to a fetch holds.
    """

    ticket: int
    node: int
    asked: tuple[TopicPartition, ...]
    api: Api
    patience_s: float
    sent_at: float
    wanted_bytes: int = 0
    by_id: bool = True


Request = Callable[[int, bool], Sequence[bytes | memoryview]]
"""Frames a request: correlation id, whether topics go by id."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection that is logged in, and the newest version that the broker speaks of each request."""

    connection: BrokerConnection
    versions: Mapping[int, int]


@dataclass(slots=True)
class Node:
    """One broker: where it is, its channel when connected, how fast it answers, what a fetch may ask for.

    While it is being connected, `queued` holds what is to be sent then.
    """

    address: Address
    channel: Channel | None = None
    opening: Future[Opened] | None = None
    queued: list[tuple[Waiting, Request]] = field(default_factory=list)
    versions: Mapping[int, int] = field(default_factory=dict)
    moved_at: float = 0.0
    round_trip_ms: float | None = None
    fetch_bytes: int = FIRST_FETCH_BYTES


# Link ---------------------------------------------------------------------------------------------


Part = TypeVar("Part", Fetched, Produced)
Brought = TypeVar("Brought")
_CONNECT_TIMEOUT_S = 5.0
_METADATA_WAIT_S = 0.1  # what a healthy cluster needs; after it the copy continues without
_SILENCE_REPORTED_AFTER_S = 1.0
_NO_EPOCH = -1
_MIN_WINDOW, _MAX_WINDOW = 5, 100
_REQUESTS_PER_MS = 4  # what a broker answers of small produce requests on one connection, measured
_ANSWER_WITHIN_S = 5.0  # past the time that a request lets the broker wait
_FETCH_HORIZON_S = 1.0  # a fetch asks for no more than what arrives in this time
_LEAST_FETCH_BYTES = 16 * 1024


class Switchboard(Protocol):
    """What a link needs of the network that it belongs to: threads, tickets, and the selector."""

    request_timeout_s: float

    def in_background(self, work: Callable[[], Brought]) -> "Future[Brought]": ...

    def next_ticket(self) -> int: ...

    def awaits(self, link: "KafkaLink", node_id: int) -> bool: ...

    def expect(self, link: "KafkaLink", waiting: Waiting) -> None: ...

    def watch(self, link: "KafkaLink", node_id: int, channel: Channel) -> None: ...

    def unwatch(self, channel: Channel) -> None: ...

    def fail(self, link: "KafkaLink", node_id: int, reason: str) -> None: ...


class KafkaLink:
    """Implements `ClusterLink` for one cluster. Constructing it opens nothing."""

    def __init__(self, cluster: ClusterConfig, network: Switchboard) -> None:
        self._cluster = cluster
        self._network = network
        self._properties: Mapping[str, str] | None = None
        self._leaders: Mapping[tuple[str, int], Leader] = {}
        self._heard: Mapping[str, str | None] = {}
        self._denied: frozenset[str] = frozenset()
        self._nodes: dict[int, Node] = {}
        self._metadata = MetadataReader(self._connect)
        self._asking: Future[ClusterMetadata] | None = None
        self._asked_at = 0.0

    # -- metadata --------------------------------------------------------------------------------

    def leader(self, partition: TopicPartition) -> int | None:
        known = self._leaders.get((partition.topic_id, partition.partition))
        return None if known is None else known.node

    def leader_epoch(self, partition: TopicPartition) -> int | None:
        known = self._leaders.get((partition.topic_id, partition.partition))
        return None if known is None else known.epoch

    def is_deleted(self, partition: TopicPartition) -> bool:
        return self._heard.get(partition.topic, partition.topic_id) != partition.topic_id

    def is_denied(self, partition: TopicPartition) -> bool:
        return partition.topic in self._denied

    def refresh(self, topics: Sequence[str]) -> None:
        """Ask, and wait a moment for the answer; a later one is taken by `take_metadata`."""
        if self._asking is None:
            self._asked_at = time.monotonic()
            self._asking = self._network.in_background(
                partial(self._metadata.read, tuple(topics), self._metadata_addresses())
            )
            wait([self._asking], timeout=_METADATA_WAIT_S)
        if not self._asking.done():
            self._heard = {}  # an old answer must not be counted again
            self._report_silence()
            return
        answered, self._asking = self._asking, None
        try:
            self._take(answered.result())
        except ClusterUnavailableError as error:
            raise ClusterUnavailableError(f"cluster {self._cluster.name!r}: {error}") from error

    def take_metadata(self) -> None:
        """Take an answer that came late; a failure is left for `refresh` to raise."""
        asking = self._asking
        if asking is not None and asking.done() and asking.exception() is None:
            self._asking = None
            self._take(asking.result())

    def _report_silence(self) -> None:
        """While leaders are known the copy continues with them; without any, silence is the trouble."""
        silent_s = time.monotonic() - self._asked_at
        if not self._leaders and silent_s > _SILENCE_REPORTED_AFTER_S:
            raise ClusterUnavailableError(
                f"cluster {self._cluster.name!r}: no broker of {self._cluster.bootstrap_servers} has said in "
                f"{silent_s:.1f} s who leads"
            )

    def _metadata_addresses(self) -> list[Address]:
        known = [node.address for node in self._nodes.values()]
        return [*known, *parse_addresses(self._cluster.bootstrap_servers)]

    def _take(self, metadata: ClusterMetadata) -> None:
        for node_id, address in metadata.addresses.items():
            known = self._nodes.get(node_id)
            if known is None or known.address != address:
                if known is not None:
                    self._drop(node_id, "the broker moved")
                self._nodes[node_id] = Node(address)
        self._heard, self._leaders = metadata.topic_ids, metadata.leaders
        self._denied = metadata.denied

    # -- connecting ------------------------------------------------------------------------------

    def _connect(self, address: Address) -> BrokerConnection:
        if self._properties is None:
            self._properties = resolved_properties(self._cluster, os.environ)
        return BrokerConnection(address, self._properties, timeout_s=_CONNECT_TIMEOUT_S)

    def _open(self, address: Address) -> Opened:
        connection = self._connect(address)
        return Opened(connection, {key: newest for key, (_, newest) in connection.api_versions().items()})

    def take_opened(self) -> None:
        """Send what was queued for brokers that are connected by now; the queue of others is failed."""
        for node_id, node in list(self._nodes.items()):
            if node.opening is None or not node.opening.done():
                continue
            opening, node.opening = node.opening, None
            try:
                opened = opening.result()
            except ClusterUnavailableError as error:
                self._drop(node_id, str(error))
                continue
            node.versions, node.channel = opened.versions, Channel(opened.connection)
            queued, node.queued = node.queued, []
            for waiting, request in queued:
                self._transmit(node_id, node, waiting, request)

    # -- requests --------------------------------------------------------------------------------

    def fetch(
        self, node: int, items: Sequence[FetchItem], *, committed: bool, max_wait_ms: int, max_bytes: int
    ) -> int:
        affordable = min(max_bytes, self._nodes[node].fetch_bytes)

        def request(ticket: int, by_id: bool) -> list[bytes | memoryview]:
            asked = (
                FetchFrom(
                    _ref(item.partition),
                    item.partition.partition,
                    item.offset,
                    _NO_EPOCH,
                    _NO_EPOCH if item.last_epoch is None else item.last_epoch,
                    min(item.max_bytes, affordable),
                )
                for item in items
            )
            return [
                fetch_request(
                    asked,
                    correlation_id=ticket,
                    by_id=by_id,
                    isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
                    max_wait_ms=max_wait_ms,
                    min_bytes=1,
                    max_bytes=affordable,
                )
            ]

        asked_for = tuple(item.partition for item in items)
        wanted = min(affordable, sum(item.max_bytes for item in items))
        return self._send(node, FETCH, asked_for, request, broker_waits_ms=max_wait_ms, wanted_bytes=wanted)

    def produce(self, node: int, items: Sequence[ProduceItem], *, timeout_ms: int) -> int:
        def request(ticket: int, by_id: bool) -> list[bytes | memoryview]:
            asked = (ProduceTo(_ref(item.partition), item.partition.partition, item.batch) for item in items)
            return produce_request(asked, correlation_id=ticket, by_id=by_id, timeout_ms=timeout_ms)

        asked_for = tuple(item.partition for item in items)
        return self._send(node, PRODUCE, asked_for, request, broker_waits_ms=timeout_ms)

    def produce_window(self, node: int) -> int:
        """By round trip; no more while the line does not take what is queued already."""
        at = self._nodes[node]
        if at.channel is not None and at.channel.has_outgoing:
            return 1
        if at.round_trip_ms is None:
            return _MIN_WINDOW
        return max(_MIN_WINDOW, min(_MAX_WINDOW, int(at.round_trip_ms * _REQUESTS_PER_MS)))

    def _send(
        self,
        node_id: int,
        api: Api,
        asked: tuple[TopicPartition, ...],
        request: Request,
        *,
        broker_waits_ms: int,
        wanted_bytes: int = 0,
    ) -> int:
        """Send, or queue while the broker is being connected."""
        now, node = time.monotonic(), self._nodes[node_id]
        patience_s = min(broker_waits_ms / 1000 + _ANSWER_WITHIN_S, self._network.request_timeout_s)
        waiting = Waiting(self._network.next_ticket(), node_id, asked, api, patience_s, now, wanted_bytes)
        if not self._network.awaits(self, node_id):
            node.moved_at = now
        self._network.expect(self, waiting)
        if node.channel is not None:
            self._transmit(node_id, node, waiting, request)
        else:
            node.queued.append((waiting, request))
            if node.opening is None:
                node.opening = self._network.in_background(partial(self._open, node.address))
        return waiting.ticket

    def _transmit(self, node_id: int, node: Node, waiting: Waiting, request: Request) -> None:
        """How topics are named is settled by the broker that the request goes to."""
        if node.channel is None:
            return  # it was lost on the request before, which has failed this one too
        waiting.by_id = self._goes_by_id(node, waiting.api)
        waiting.sent_at = time.monotonic()
        try:
            node.channel.send(request(waiting.ticket, waiting.by_id))
            self._network.watch(self, node_id, node.channel)
        except OSError as error:
            self._drop(node_id, str(error))

    def _goes_by_id(self, node: Node, api: Api) -> bool:
        """Topic ids where the broker can. Raises `ProtocolError` for a broker that is too old."""
        newest = node.versions.get(api.key, -1)
        if newest < api.by_name:
            raise ProtocolError(
                f"{node.address} speaks version {newest} of request {api.key} at most; "
                f"{api.by_name} is needed; nothing was sent"
            )
        return newest >= api.by_id

    # -- answers ---------------------------------------------------------------------------------

    def serve(self, node_id: int) -> list[tuple[int, memoryview]]:
        """Move bytes both ways on a node that the selector reported; a lost peer drops the node."""
        node = self._nodes[node_id]
        channel = node.channel
        if channel is None:
            return []
        node.moved_at = time.monotonic()
        try:
            channel.flush()
            responses = channel.receive()
        except OSError as error:
            self._drop(node_id, str(error))
            return []
        self._network.watch(self, node_id, channel)
        return responses

    def completion(self, waiting: Waiting, body: memoryview) -> Completion:
        """The parsed answer, its partitions in the order asked."""
        if waiting.api is FETCH:
            self._note_speed(waiting, len(body))
            fetched = parse_fetch_response(body, by_id=waiting.by_id)
            if fetched.error:
                return Completion(
                    waiting.ticket,
                    failure=f"{self._cluster.name} answered a fetch with error {fetched.error}",
                )
            return Completion(
                waiting.ticket, _in_order(waiting, fetched.parts), throttle_ms=fetched.throttle_ms
            )
        self._note_round_trip(waiting)
        produced = parse_produce_response(body, by_id=waiting.by_id)
        return Completion(
            waiting.ticket, produced=_in_order(waiting, produced.parts), throttle_ms=produced.throttle_ms
        )

    def _note_speed(self, waiting: Waiting, size: int) -> None:
        """Size the next fetch by how fast the line delivered, if the answer was full enough to tell."""
        if size >= waiting.wanted_bytes // 2:
            took_s = max(time.monotonic() - waiting.sent_at, 0.001)
            self._nodes[waiting.node].fetch_bytes = max(
                _LEAST_FETCH_BYTES, int(size / took_s * _FETCH_HORIZON_S)
            )

    def _note_round_trip(self, waiting: Waiting) -> None:
        """The shortest seen, slowly forgotten: queueing must not widen the window."""
        node = self._nodes[waiting.node]
        measured = (time.monotonic() - waiting.sent_at) * 1000
        node.round_trip_ms = (
            measured if node.round_trip_ms is None else min(measured, node.round_trip_ms * 1.01)
        )

    def is_overdue(self, waiting: Waiting, now: float) -> bool:
        """Nothing has moved on the request's channel for longer than any request there may take."""
        return now > self._nodes[waiting.node].moved_at + waiting.patience_s

    def _drop(self, node_id: int, reason: str) -> None:
        node = self._nodes[node_id]
        if node.channel is not None:
            self._network.unwatch(node.channel)
            node.channel.close()
            node.channel = None
        if node.opening is not None:
            node.opening.add_done_callback(_close_opened)
            node.opening = None
        node.queued = []
        # A line that is cut again and again gets smaller pieces through.
        node.fetch_bytes = max(_LEAST_FETCH_BYTES, min(node.fetch_bytes, FIRST_FETCH_BYTES) // 2)
        self._network.fail(self, node_id, f"{self._cluster.name} {node.address}: {reason}")

    def expire(self, node_id: int) -> None:
        """A request was not answered in time: everything on that channel is in doubt."""
        silent_s = time.monotonic() - self._nodes[node_id].moved_at
        self._drop(node_id, f"no answer within {silent_s:.0f} s")

    def close(self) -> None:
        for node_id in self._nodes:
            self._drop(node_id, "the connection was closed")
        if self._asking is None:
            self._metadata.close()
        else:
            self._asking.add_done_callback(lambda _: self._metadata.close())


def _close_opened(opening: Future[Opened]) -> None:
    """What was opened for a node that has been given up meanwhile."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().connection.close()


def _ref(partition: TopicPartition) -> TopicRef:
    return TopicRef(partition.topic, topic_id_bytes(partition.topic_id))


def _in_order(waiting: Waiting, parts: Sequence[Part]) -> tuple[Part | None, ...]:
    """Parts of a response by the partitions that were asked for; None where the broker left one out."""
    found = {(part.topic, part.partition): part for part in parts}
    return tuple(
        found.get((topic_id_bytes(p.topic_id) if waiting.by_id else p.topic, p.partition))
        for p in waiting.asked
    )
