"""Kept connections of a copy task to one cluster, behind `ports.ClusterLink`.

One channel a node carries produce requests or fetches; answers of one node come in the order asked,
which is what keeps several produce requests in flight in order.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Protocol, TypeVar

from ledger.adapters.kafka.connection.broker_connection import Address, BrokerConnection, parse_addresses
from ledger.adapters.kafka.connection.client_properties import resolved_properties
from ledger.adapters.kafka.network.broker_state import (
    FETCH,
    FIRST_FETCH_BYTES,
    PRODUCE,
    Api,
    Node,
    Opened,
    Request,
    Waiting,
)
from ledger.adapters.kafka.network.channel import Channel
from ledger.adapters.kafka.network.metadata import ClusterMetadata, Leader, MetadataReader
from ledger.config.cluster import ClusterConfig
from ledger.domain.facts import TopicPartition
from ledger.domain.topics.topic_ids import topic_id_bytes
from ledger.errors import ClusterUnavailableError, ProtocolError
from ledger.ports.network import Completion, FetchItem, ProduceItem
from ledger.wire.requests import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
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
    """Implements `ports.ClusterLink` for one cluster. Constructing it opens nothing."""

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

    def is_gone(self, partition: TopicPartition) -> bool:
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
