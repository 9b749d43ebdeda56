"""Kept connections of a copy task to both clusters, behind `ports.Network`.

One channel a node and cluster carries produce requests or fetches; answers to one node come in the
order asked, which is what keeps several produce requests in flight in order.
"""

import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from ledger.adapters.kafka.channel import Channel
from ledger.adapters.kafka.client_properties import resolved_properties
from ledger.adapters.kafka.connection import Address, BrokerConnection, parse_addresses
from ledger.config import ClusterConfig
from ledger.domain.facts import TopicPartition
from ledger.domain.topic_ids import topic_id_bytes, topic_id_text
from ledger.errors import ClusterUnavailableError, ProtocolError
from ledger.ports import Completion, FetchItem, ProduceItem
from ledger.wire.error_codes import ErrorCode
from ledger.wire.requests import (
    FETCH_BY_ID,
    FETCH_BY_NAME,
    FETCH_KEY,
    PRODUCE_BY_ID,
    PRODUCE_BY_NAME,
    PRODUCE_KEY,
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
_CONNECT_TIMEOUT_S = 5.0
_METADATA_VERSION = 12
_NO_EPOCH = -1
_MIN_WINDOW, _MAX_WINDOW = 5, 100
_REQUESTS_PER_MS = 4  # what a broker answers of small produce requests on one connection, measured


@dataclass(frozen=True, slots=True)
class _Api:
    """One of the two hot requests: its key, and the versions by topic name and by topic id."""

    key: int
    by_name: int
    by_id: int


_FETCH = _Api(FETCH_KEY, FETCH_BY_NAME, FETCH_BY_ID)
_PRODUCE = _Api(PRODUCE_KEY, PRODUCE_BY_NAME, PRODUCE_BY_ID)


@dataclass(slots=True)
class _Waiting:
    """A request without an answer yet; `asked` keeps the order of its partitions."""

    ticket: int
    node: int
    asked: tuple[TopicPartition, ...]
    api: _Api
    deadline: float
    sent_at: float = 0.0
    by_id: bool = True


@dataclass(slots=True)
class _Node:
    """One broker: where it is, its channel when connected, and how fast it answers."""

    address: Address
    channel: Channel | None = None
    versions: Mapping[int, int] = field(default_factory=dict)
    round_trip_ms: float | None = None


class KafkaLink:
    """Implements `ports.ClusterLink` for one cluster. Constructing it opens nothing."""

    def __init__(self, cluster: ClusterConfig, network: "KafkaNetwork") -> None:
        self._cluster = cluster
        self._network = network
        self._properties: Mapping[str, str] | None = None
        self._leaders: dict[tuple[str, int], int] = {}
        self._heard: dict[str, str | None] = {}
        self._nodes: dict[int, _Node] = {}
        self._metadata: BrokerConnection | None = None

    # -- metadata --------------------------------------------------------------------------------

    def leader(self, partition: TopicPartition) -> int | None:
        return self._leaders.get((partition.topic_id, partition.partition))

    def is_gone(self, partition: TopicPartition) -> bool:
        return self._heard.get(partition.topic, partition.topic_id) != partition.topic_id

    def refresh(self, topics: Sequence[str]) -> None:
        request_topics = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None) for name in topics]
        answer = self._ask_metadata(request_topics)
        self._take_brokers({broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers})
        self._heard = {
            topic.name: topic_id_text(topic.topic_id.bytes) if topic.error_code == 0 else None
            for topic in answer.topics
            if topic.error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        }
        self._leaders = {
            (topic_id_text(topic.topic_id.bytes), partition.partition_index): partition.leader_id
            for topic in answer.topics
            if topic.error_code == 0
            for partition in topic.partitions
            if partition.leader_id in self._nodes
        }

    def _ask_metadata(self, topics: list[object]) -> MetadataResponse:
        request = MetadataRequest[_METADATA_VERSION](topics=topics, allow_auto_topic_creation=False)
        reasons = []
        for address in self._metadata_addresses():
            try:
                if self._metadata is None:
                    self._metadata = self._open(address)
                return self._metadata.call(request, MetadataResponse)
            except ClusterUnavailableError as error:
                self._metadata = None
                reasons.append(str(error))
        raise ClusterUnavailableError(f"cluster {self._cluster.name!r}: " + "; ".join(reasons))

    def _metadata_addresses(self) -> list[Address]:
        known = [node.address for node in self._nodes.values()]
        current = [] if self._metadata is None else [self._metadata.address]
        return list(dict.fromkeys([*current, *known, *parse_addresses(self._cluster.bootstrap_servers)]))

    def _take_brokers(self, addresses: Mapping[int, Address]) -> None:
        for node_id, address in addresses.items():
            known = self._nodes.get(node_id)
            if known is None or known.address != address:
                if known is not None:
                    self._drop(node_id, "the broker moved")
                self._nodes[node_id] = _Node(address)

    def _open(self, address: Address) -> BrokerConnection:
        if self._properties is None:
            self._properties = resolved_properties(self._cluster, os.environ)
        return BrokerConnection(address, self._properties, timeout_s=_CONNECT_TIMEOUT_S)

    # -- requests --------------------------------------------------------------------------------

    def fetch(
        self, node: int, items: Sequence[FetchItem], *, committed: bool, max_wait_ms: int, max_bytes: int
    ) -> int:
        def request(ticket: int, by_id: bool) -> list[bytes | memoryview]:
            asked = (
                FetchFrom(
                    _ref(i.partition),
                    i.partition.partition,
                    i.offset,
                    _NO_EPOCH,
                    _NO_EPOCH if i.last_epoch is None else i.last_epoch,
                    i.max_bytes,
                )
                for i in items
            )
            return [
                fetch_request(
                    asked,
                    correlation_id=ticket,
                    by_id=by_id,
                    isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
                    max_wait_ms=max_wait_ms,
                    min_bytes=1,
                    max_bytes=max_bytes,
                )
            ]

        return self._send(node, _FETCH, tuple(item.partition for item in items), request)

    def produce(self, node: int, items: Sequence[ProduceItem], *, timeout_ms: int) -> int:
        def request(ticket: int, by_id: bool) -> list[bytes | memoryview]:
            asked = (ProduceTo(_ref(item.partition), item.partition.partition, item.batch) for item in items)
            return produce_request(asked, correlation_id=ticket, by_id=by_id, timeout_ms=timeout_ms)

        return self._send(node, _PRODUCE, tuple(item.partition for item in items), request)

    def produce_window(self, node: int) -> int:
        round_trip_ms = self._nodes[node].round_trip_ms
        if round_trip_ms is None:
            return _MIN_WINDOW
        return max(_MIN_WINDOW, min(_MAX_WINDOW, int(round_trip_ms * _REQUESTS_PER_MS)))

    def _send(
        self,
        node_id: int,
        api: _Api,
        asked: tuple[TopicPartition, ...],
        request: Callable[[int, bool], Sequence[bytes | memoryview]],
    ) -> int:
        """Connect if need be and send; how topics are named is settled by the broker that it goes to."""
        waiting = _Waiting(self._network.next_ticket(), node_id, asked, api, self._network.new_deadline())
        self._network.expect(self, waiting)
        try:
            node = self._connected(node_id)
            waiting.by_id = self._goes_by_id(node, api)
            waiting.sent_at = time.monotonic()
            assert node.channel is not None
            node.channel.send(request(waiting.ticket, waiting.by_id))
            self._network.watch(self, node_id, node.channel)
        except (OSError, ClusterUnavailableError) as error:
            self._drop(node_id, str(error))
        return waiting.ticket

    def _goes_by_id(self, node: _Node, api: _Api) -> bool:
        """Topic ids where the broker can. Raises `ProtocolError` for a broker that is too old."""
        newest = node.versions.get(api.key, -1)
        if newest < api.by_name:
            raise ProtocolError(
                f"{node.address} speaks version {newest} of request {api.key} at most; "
                f"{api.by_name} is needed; nothing was sent"
            )
        return newest >= api.by_id

    def _connected(self, node_id: int) -> _Node:
        node = self._nodes[node_id]
        if node.channel is None:
            connection = self._open(node.address)
            answer = connection.call(ApiVersionsRequest[0](), ApiVersionsResponse)
            node.versions = {entry.api_key: entry.max_version for entry in answer.api_keys}
            node.channel = Channel(connection)
            self._network.watch(self, node_id, node.channel)
        return node

    # -- answers ---------------------------------------------------------------------------------

    def serve(self, node_id: int) -> list[tuple[int, memoryview]]:
        """Move bytes both ways on a node that the selector reported; a lost peer drops the node."""
        channel = self._nodes[node_id].channel
        if channel is None:
            return []
        try:
            channel.flush()
            responses = channel.receive()
        except OSError as error:
            self._drop(node_id, str(error))
            return []
        self._network.watch(self, node_id, channel)
        return responses

    def completion(self, waiting: _Waiting, body: memoryview) -> Completion:
        """The parsed answer, its partitions in the order asked."""
        if waiting.api is _FETCH:
            error, fetched = parse_fetch_response(body, by_id=waiting.by_id)
            if error:
                return Completion(
                    waiting.ticket, failure=f"{self._cluster.name} answered a fetch with error {error}"
                )
            return Completion(waiting.ticket, fetched=_in_order(waiting, fetched))
        self._note_round_trip(waiting)
        return Completion(
            waiting.ticket, produced=_in_order(waiting, parse_produce_response(body, by_id=waiting.by_id))
        )

    def _note_round_trip(self, waiting: _Waiting) -> None:
        """The shortest seen, slowly forgotten: queueing must not widen the window."""
        node = self._nodes[waiting.node]
        measured = (time.monotonic() - waiting.sent_at) * 1000
        node.round_trip_ms = (
            measured if node.round_trip_ms is None else min(measured, node.round_trip_ms * 1.01)
        )

    def _drop(self, node_id: int, reason: str) -> None:
        node = self._nodes[node_id]
        if node.channel is not None:
            self._network.unwatch(node.channel)
            node.channel.close()
            node.channel = None
        self._network.fail(self, node_id, f"{self._cluster.name} {node.address}: {reason}")

    def expire(self, node_id: int) -> None:
        """A request was not answered in time: everything on that channel is in doubt."""
        self._drop(node_id, f"no answer within {self._network.request_timeout_s:.0f} s")

    def close(self) -> None:
        for node_id in self._nodes:
            self._drop(node_id, "the connection was closed")
        if self._metadata is not None:
            self._metadata.close()
            self._metadata = None


class KafkaNetwork:
    """Implements `ports.Network`: one selector over the channels of both clusters."""

    def __init__(self, source: ClusterConfig, target: ClusterConfig, *, request_timeout_s: float) -> None:
        self.request_timeout_s = request_timeout_s
        self._selector = selectors.DefaultSelector()
        self._tickets = 0
        self._waiting: dict[int, tuple[KafkaLink, _Waiting]] = {}
        self._failed: list[Completion] = []
        self.source = KafkaLink(source, self)
        self.target = KafkaLink(target, self)

    @property
    def is_idle(self) -> bool:
        """No request waits for its answer."""
        return not self._waiting and not self._failed

    def new_deadline(self) -> float:
        return time.monotonic() + self.request_timeout_s

    def next_ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def expect(self, link: KafkaLink, waiting: _Waiting) -> None:
        self._waiting[waiting.ticket] = (link, waiting)

    def watch(self, link: KafkaLink, node_id: int, channel: Channel) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.has_outgoing else 0)
        known = self._selector.get_map().get(channel.socket)
        if known is None:
            self._selector.register(channel.socket, events, (link, node_id))
        elif known.events != events:
            self._selector.modify(channel.socket, events, (link, node_id))

    def unwatch(self, channel: Channel) -> None:
        self._selector.unregister(channel.socket)

    def fail(self, link: KafkaLink, node_id: int, reason: str) -> None:
        """Answer everything that waits for the node with the reason why there is no answer."""
        lost = [
            t for t, (owner, waiting) in self._waiting.items() if owner is link and waiting.node == node_id
        ]
        for ticket in lost:
            del self._waiting[ticket]
            self._failed.append(Completion(ticket, failure=reason))

    def poll(self, timeout_s: float) -> list[Completion]:
        completions: list[Completion] = []
        for key, _events in self._selector.select(0 if self._failed else timeout_s):
            link, node_id = key.data
            for ticket, body in link.serve(node_id):
                owner, waiting = self._waiting.pop(ticket)
                completions.append(owner.completion(waiting, body))
        self._expire()
        failed, self._failed = self._failed, []
        return completions + failed

    def _expire(self) -> None:
        now = time.monotonic()
        late = {(link, waiting.node) for link, waiting in self._waiting.values() if waiting.deadline < now}
        for link, node_id in late:
            link.expire(node_id)

    def close(self) -> None:
        self.source.close()
        self.target.close()
        self._selector.close()


def _ref(partition: TopicPartition) -> TopicRef:
    return TopicRef(partition.topic, topic_id_bytes(partition.topic_id))


def _in_order(waiting: _Waiting, parts: Sequence[Part]) -> tuple[Part | None, ...]:
    """Parts of a response by the partitions that were asked for; None where the broker left one out."""
    found = {(part.topic, part.partition): part for part in parts}
    return tuple(
        found.get((topic_id_bytes(p.topic_id) if waiting.by_id else p.topic, p.partition))
        for p in waiting.asked
    )
