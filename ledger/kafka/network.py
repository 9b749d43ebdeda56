"""Kept connections of a copy task to two clusters, behind `Network` and `ClusterLink`.

One selector is over the channels of both. Nothing here waits for one broker while others could be served: connecting,
logging in and asking for metadata happen on threads, and what they bring is picked up by `poll`.
"""

import os
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from ledger.config.values import CLIENT_RACK, ClusterConfig
from ledger.errors import ClusterUnavailableError, ProtocolError
from ledger.facts.syncs import TopicPartition, topic_id_bytes
from ledger.kafka.channel import Channel, ClusterMetadata, MetadataReader, read_metadata
from ledger.kafka.connection import (
    Address,
    BrokerConnection,
    metadata_request,
    parse_addresses,
    parse_metadata_response,
    prepare_login,
    resolved_properties,
)
from ledger.kafka.copying import Completion
from ledger.kafka.requests import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ErrorCode,
    Fetched,
    FetchItem,
    Produced,
    ProduceItem,
    fetch_request,
    parse_fetch_response,
    parse_produce_response,
    produce_request,
)
from ledger.kafka.spoken import FETCH, METADATA, PRODUCE, Spoken, Versions

# Broker state -------------------------------------------------------------------------------------
# What a link remembers of one broker and of one request: plain state, no IO.


FIRST_FETCH_BYTES = 256 * 1024  # until the line has shown what it delivers


@dataclass(slots=True)
class Waiting:
    """A request without an answer yet; `asked` keeps the order of its partitions.

    `patience_s`: how long the broker may be silent, no byte moving either way, before it counts as lost.
    `wanted_bytes`: what a full answer to a fetch holds.
    """

    ticket: int
    node: int
    asked: tuple[TopicPartition, ...]
    api: Spoken
    patience_s: float
    sent_at: float
    wanted_bytes: int = 0
    by_id: bool = True


Request = Callable[[int, bool], Sequence[bytes | memoryview]]
"""Frames a request: correlation id, whether topics go by id."""


Opened = tuple[BrokerConnection, Versions]
"""A connection that is logged in, and what the broker speaks."""


@dataclass(slots=True)
class Node:
    """One broker: where it is, its channel when connected, how fast it answers, what a fetch may ask for.

    While it is being connected, or logs in again, `queued` holds what is to be sent then; `is_login_due`: it is to log
    in again when what was sent is answered. `unconfirmed`: answers to requests that named topics, until the broker has
    said which topics these names are; `is_confirming`: it has been asked; `unasked`: how many requests went since.
    `held`: what is to be written by name, until it has said the same; `named`: topic ids by name, and when it said so
    last.
    """

    address: Address
    channel: Channel | None = None
    opening: Future[Opened] | None = None
    queued: list[tuple[Waiting, Request]] = field(default_factory=list)
    is_login_due: bool = False
    versions: Versions = field(default_factory=dict)
    moved_at: float = 0.0
    round_trip_ms: float | None = None
    fetch_bytes: int = FIRST_FETCH_BYTES
    is_confirming: bool = False
    unasked: int = 0
    unconfirmed: list[tuple[Waiting, Completion]] = field(default_factory=list)
    held: list[tuple[Waiting, Request]] = field(default_factory=list)
    named: dict[str, tuple[str | None, float]] = field(default_factory=dict)


# Link ---------------------------------------------------------------------------------------------


Part = TypeVar("Part", Fetched, Produced)
Brought = TypeVar("Brought")
_THREADS = 16  # brokers that may hang at the same time without holding up others
_CONNECT_TIMEOUT_S = 5.0
_METADATA_WAIT_S = 0.1  # what a healthy cluster needs; after it the copy continues without
_SILENCE_REPORTED_AFTER_S = 1.0
_MIN_WINDOW, _MAX_WINDOW = 5, 100
_REQUESTS_PER_MS = 4  # what a broker answers of small produce requests on one connection, measured
_ANSWER_WITHIN_S = 5.0  # past the time that a request lets the broker wait
_FETCH_HORIZON_S = 1.0  # a fetch asks for no more than what arrives in this time
_LEAST_FETCH_BYTES = 16 * 1024
_ASKED_TOGETHER = 8  # requests that a question about names is about
_UNSAID = (None, float("-inf"))
_NAMES_LAST_S = 0.2  # between a broker's word on names and what is written by them


class KafkaLink:
    """Implements `ClusterLink` for one cluster. Constructing it opens nothing.

    One channel a node carries produce requests or fetches; answers of one node come in the order asked, which is what
    keeps several produce requests in flight in order. Another one is opened where requests are sent `aside`.
    """

    def __init__(self, cluster: ClusterConfig, network: "KafkaNetwork") -> None:
        self._cluster = cluster
        self._rack = str(cluster.properties.get(CLIENT_RACK, ""))
        self._network = network
        self._known = ClusterMetadata({}, {}, {}, frozenset())
        self._heard: Mapping[str, str | None] = {}
        self._nodes: dict[int, Node] = {}
        self._waiting: dict[int, Waiting] = {}
        self._failed: list[Completion] = []
        self._metadata = MetadataReader(self._connect)
        self._asking: Future[ClusterMetadata] | None = None
        self._asked_at = 0.0

    # -- metadata --------------------------------------------------------------------------------

    def leader(self, partition: TopicPartition) -> int | None:
        known = self._known.leaders.get((partition.topic_id, partition.partition))
        return None if known is None else known.node

    def leader_epoch(self, partition: TopicPartition) -> int | None:
        known = self._known.leaders.get((partition.topic_id, partition.partition))
        return None if known is None else known.epoch

    def is_deleted(self, partition: TopicPartition) -> bool:
        return self._heard.get(partition.topic, partition.topic_id) != partition.topic_id

    def is_denied(self, partition: TopicPartition) -> bool:
        return partition.topic in self._known.denied

    def refresh(self, topics: Sequence[str]) -> None:
        """Ask, and wait a moment for the answer; a later one is taken by `take_metadata`."""
        if self._asking is None:
            self._asked_at = time.monotonic()
            known = [node.address for node in self._nodes.values()]
            self._asking = self._network.in_background(
                partial(
                    self._metadata.read,
                    tuple(topics),
                    [*known, *parse_addresses(self._cluster.bootstrap_servers)],
                )
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
        if not self._known.leaders and silent_s > _SILENCE_REPORTED_AFTER_S:
            raise ClusterUnavailableError(
                f"cluster {self._cluster.name!r}: no broker of {self._cluster.bootstrap_servers} has said in "
                f"{silent_s:.1f} s who leads"
            )

    def _take(self, metadata: ClusterMetadata) -> None:
        for node_id, address in metadata.addresses.items():
            self._nodes.setdefault(node_id, Node(address))
            for line in (node_id, _aside(node_id)):
                known = self._nodes.get(line)
                if known is not None and known.address != address:
                    self._drop(line, "the broker moved")
                    self._nodes[line] = Node(address)
        self._known, self._heard = metadata, metadata.topic_ids

    # -- connecting ------------------------------------------------------------------------------

    def _connect(self, address: Address) -> BrokerConnection:
        properties = resolved_properties(self._cluster, os.environ)
        return BrokerConnection(address, properties, timeout_s=_CONNECT_TIMEOUT_S)

    def _open(self, address: Address) -> Opened:
        connection = self._connect(address)
        return connection, connection.api_versions()

    def take_opened(self) -> None:
        """Send what was queued for brokers that are connected by now; the queue of others is failed."""
        for node_id, node in list(self._nodes.items()):
            if node.opening is None or not node.opening.done():
                continue
            opening, node.opening = node.opening, None
            try:
                connection, node.versions = opening.result()
            except ClusterUnavailableError as error:
                self._drop(node_id, str(error))
                continue
            node.channel, node.moved_at = Channel(connection), time.monotonic()
            queued, node.queued = node.queued, []
            for waiting, request in queued:
                self._transmit(node_id, node, waiting, request)

    def _log_in_when_answered(self, node_id: int, node: Node) -> None:
        """Log in again, on the same connection and a thread of its own, once nothing that was sent is unanswered.

        A broker that ends a login takes no other request meanwhile; what is to be sent waits in `queued`.
        """
        channel, unsent = node.channel, {waiting.ticket for waiting, _ in node.queued}
        if channel is None or channel.has_outgoing or node.unconfirmed or node.held:
            return
        if any(waiting.ticket not in unsent for waiting in self._waiting_for(node_id)):
            return
        self._network.unwatch(channel)
        node.channel, node.is_login_due = None, False
        node.opening = self._network.in_background(partial(_logged_in_again, channel, node.versions))

    # -- requests --------------------------------------------------------------------------------

    def fetch(
        self,
        node: int,
        items: Sequence[FetchItem],
        *,
        committed: bool,
        max_wait_ms: int,
        max_bytes: int,
        nearest: bool = False,
    ) -> int:
        affordable = min(max_bytes, self._nodes[node].fetch_bytes)
        asked = [
            replace(
                item,
                max_bytes=min(item.max_bytes, affordable),
                leader_epoch=self.leader_epoch(item.partition),
            )
            for item in items
        ]

        def request(ticket: int, by_id: bool) -> list[bytes | memoryview]:
            return [
                fetch_request(
                    asked,
                    correlation_id=ticket,
                    by_id=by_id,
                    isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
                    max_wait_ms=max_wait_ms,
                    min_bytes=1,
                    max_bytes=affordable,
                    rack=self._rack if nearest else "",
                )
            ]

        wanted = min(affordable, sum(item.max_bytes for item in items))
        return self._send(node, FETCH, asked, request, broker_waits_ms=max_wait_ms, wanted_bytes=wanted)

    def produce(self, node: int, items: Sequence[ProduceItem], *, timeout_ms: int) -> int:
        def request(ticket: int, by_id: bool) -> list[bytes | memoryview]:
            return produce_request(items, correlation_id=ticket, by_id=by_id, timeout_ms=timeout_ms)

        return self._send(node, PRODUCE, items, request, broker_waits_ms=timeout_ms)

    def aside(self, node: int) -> int:
        line = _aside(node)
        self._nodes.setdefault(line, Node(self._nodes[node].address))
        return line

    def produce_window(self, node: int) -> int:
        """By round trip; no more while the line does not take what is queued already. By name answers come later."""
        at = self._nodes[node]
        if at.channel is not None and at.channel.has_outgoing:
            return 1
        waits = 0 if at.channel is None or self._goes_by_id(at, PRODUCE) else 2 * _ASKED_TOGETHER
        if at.round_trip_ms is None:
            return _MIN_WINDOW + waits
        return max(_MIN_WINDOW, min(_MAX_WINDOW, int(at.round_trip_ms * _REQUESTS_PER_MS))) + waits

    def _send(
        self,
        node_id: int,
        api: Spoken,
        items: Sequence[FetchItem | ProduceItem],
        request: Request,
        *,
        broker_waits_ms: int,
        wanted_bytes: int = 0,
    ) -> int:
        """Send, or queue while the broker is being connected."""
        now, node = time.monotonic(), self._nodes[node_id]
        patience_s = min(broker_waits_ms / 1000 + _ANSWER_WITHIN_S, self._network.request_timeout_s)
        asked = tuple(item.partition for item in items)
        waiting = Waiting(self._network.next_ticket(), node_id, asked, api, patience_s, now, wanted_bytes)
        if not self._waiting_for(node_id):
            node.moved_at = now
        self._waiting[waiting.ticket] = waiting
        node.is_login_due = node.is_login_due or (
            node.channel is not None and node.channel.connection.is_login_due
        )
        if node.channel is not None and not node.is_login_due:
            self._transmit(node_id, node, waiting, request)
            return waiting.ticket
        node.queued.append((waiting, request))
        if node.is_login_due:
            self._log_in_when_answered(node_id, node)
        elif node.opening is None:
            node.opening = self._network.in_background(partial(self._open, node.address))
        return waiting.ticket

    def _transmit(self, node_id: int, node: Node, waiting: Waiting, request: Request) -> None:
        """How topics are named is settled by the broker that the request goes to."""
        if node.channel is None:
            return  # it was lost on the request before, which has failed this one too
        waiting.by_id = self._goes_by_id(node, waiting.api)
        if waiting.api is PRODUCE and not waiting.by_id and (node.held or not _are_these(waiting, node)):
            node.held.append((waiting, request))
            self._confirm(node_id, node)
            return
        waiting.sent_at = time.monotonic()
        try:
            node.channel.send(request(waiting.ticket, waiting.by_id))
            self._network.watch(self, node_id, node.channel)
        except OSError as error:
            self._drop(node_id, str(error))
        else:
            if _names_topics(waiting):
                node.unasked += 1
                self._confirm_when_due(node_id, node)

    # -- names -----------------------------------------------------------------------------------
    # An answer to a request that named its topics is given away once the same broker has said, behind it on the same
    # connection, that the names still are the topics that were meant: a broker takes up a connection's next request
    # only when it has answered the one before. One question at a time is about all that was sent before it, and costs a
    # broker as much as a small batch: while many requests are on their way it is about several.
    # What is to be written by name waits until the broker has said the same a moment before as well. Only a topic that
    # is created again within that moment gets a batch of the one before it, which is never recorded as copied.

    def _confirm_when_due(self, node_id: int, node: Node) -> None:
        """Behind so many requests, behind one that is alone, and when all are answered."""
        on_their_way = sum(map(_names_topics, self._waiting_for(node_id)))
        if node.unasked >= _ASKED_TOGETHER or on_their_way + len(node.unconfirmed) == 1 or not on_their_way:
            self._confirm(node_id, node)

    def _confirm(self, node_id: int, node: Node) -> None:
        """Ask which topics the names are, unless that is being asked."""
        version = METADATA.common(node.versions)
        if node.is_confirming or node.channel is None or version is None:
            return
        meant = [*self._waiting_for(node_id), *(waiting for waiting, _ in node.unconfirmed)]
        names = sorted({at.topic for waiting in meant if _names_topics(waiting) for at in waiting.asked})
        ticket = self._network.next_ticket()
        now = time.monotonic()
        self._waiting[ticket] = Waiting(ticket, node_id, (), METADATA, _ANSWER_WITHIN_S, now)
        node.is_confirming, node.unasked = True, 0
        try:
            node.channel.send([metadata_request(names, version=version, correlation_id=ticket)])
            self._network.watch(self, node_id, node.channel)
        except OSError as error:
            self._drop(node_id, str(error))

    def _confirmed(self, asked: Waiting, body: memoryview) -> list[Completion]:
        """What was answered before the question about names, each partition of another topic with the error of one."""
        node = self._nodes[asked.node]
        node.is_confirming = False
        version = METADATA.common(node.versions)
        assert version is not None, "it was asked in this version"
        found = read_metadata(parse_metadata_response(body, version=version)).topic_ids
        now = time.monotonic()
        node.named |= {name: (topic_id, now) for name, topic_id in found.items()}
        done = [(waiting, answer) for waiting, answer in node.unconfirmed if waiting.ticket < asked.ticket]
        node.unconfirmed = [one for one in node.unconfirmed if one[0].ticket > asked.ticket]
        done += self._release(asked, node)
        if node.unconfirmed:
            self._confirm_when_due(asked.node, node)
        return [_of_these_topics(waiting, answer, found) for waiting, answer in done]

    def _release(self, asked: Waiting, node: Node) -> list[tuple[Waiting, Completion]]:
        """Send what was held. What names another topic is answered unsent, and all behind it: the order is kept."""
        held, node.held = node.held, []
        unsent: list[tuple[Waiting, Completion]] = []
        for waiting, request in held:
            if not unsent and (waiting.ticket > asked.ticket or _are_these(waiting, node)):
                self._transmit(asked.node, node, waiting, request)
            elif self._waiting.pop(waiting.ticket, None) is not None:
                parts = tuple(map(_not_sent, waiting.asked))
                unsent.append((waiting, Completion(waiting.ticket, produced=parts)))
        return unsent

    def _goes_by_id(self, node: Node, api: Spoken) -> bool:
        """Topic ids where the broker can. Raises `ProtocolError` for a broker that is too old, or too new."""
        if not api.is_spoken(node.versions):
            raise ProtocolError(
                f"{node.address} speaks {api.request} {node.versions.get(api.key, 'not at all')}; "
                f"{api.oldest} to {api.newest} is needed; nothing was sent"
            )
        return api.since(api.newest).is_spoken(node.versions)

    # -- answers ---------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """No request waits for its answer."""
        return not (self._waiting or self._failed or any(node.unconfirmed for node in self._nodes.values()))

    @property
    def has_failed(self) -> bool:
        """Whether `take_failed` has something to tell."""
        return bool(self._failed)

    def serve(self, node_id: int) -> list[Completion]:
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
        completions: list[Completion] = []
        for ticket, body in responses:
            waiting = self._waiting.pop(ticket)
            if waiting.api is METADATA:
                completions += self._confirmed(waiting, body)
            elif _names_topics(waiting):
                node.unconfirmed.append((waiting, self._completion(waiting, body)))
                self._confirm_when_due(node_id, node)
            else:
                completions.append(self._completion(waiting, body))
        if node.is_login_due:
            self._log_in_when_answered(node_id, node)
        return completions

    def take_failed(self) -> list[Completion]:
        """What has no answer, for the reason that each says: of nodes that were lost, or are late by now.

        A node is late when nothing has moved on its channel for longer than even its most patient request may take.
        """
        now = time.monotonic()
        for node_id in {waiting.node for waiting in self._waiting.values()}:
            silent_s = now - self._nodes[node_id].moved_at
            if silent_s > max(waiting.patience_s for waiting in self._waiting_for(node_id)):
                self._drop(node_id, f"no answer within {silent_s:.0f} s")
        failed, self._failed = self._failed, []
        return failed

    def _waiting_for(self, node_id: int) -> list[Waiting]:
        return [waiting for waiting in self._waiting.values() if waiting.node == node_id]

    def _completion(self, waiting: Waiting, body: memoryview) -> Completion:
        """The parsed answer, its partitions in the order asked."""
        if waiting.api is FETCH:
            self._note_speed(waiting, len(body))
            fetched = parse_fetch_response(body, by_id=waiting.by_id)
            if fetched.error:
                return Completion(
                    waiting.ticket,
                    failure=f"{self._cluster.name} answered a fetch with error {fetched.error}",
                )
            parts = [self._without_unknown(part) for part in fetched.parts]
            return Completion(waiting.ticket, _in_order(waiting, parts), throttle_ms=fetched.throttle_ms)
        self._note_round_trip(waiting)
        produced = parse_produce_response(body, by_id=waiting.by_id)
        return Completion(
            waiting.ticket, produced=_in_order(waiting, produced.parts), throttle_ms=produced.throttle_ms
        )

    def _without_unknown(self, part: Fetched) -> Fetched:
        """A replica that no metadata has named yet cannot be asked."""
        is_known = part.preferred_replica is None or part.preferred_replica in self._nodes
        return part if is_known else replace(part, preferred_replica=None)

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

    def _drop(self, node_id: int, reason: str) -> None:
        node = self._nodes[node_id]
        if node.channel is not None:
            self._network.unwatch(node.channel)
            node.channel.close()
            node.channel = None
        if node.opening is not None:
            node.opening.add_done_callback(_close_opened)
            node.opening = None
        node.queued, node.is_login_due = [], False
        # A line that is cut again and again gets smaller pieces through.
        node.fetch_bytes = max(_LEAST_FETCH_BYTES, min(node.fetch_bytes, FIRST_FETCH_BYTES) // 2)
        lost = [*(waiting for waiting, _ in node.unconfirmed), *self._waiting_for(node_id)]
        node.unconfirmed, node.is_confirming, node.held = [], False, []
        for waiting in lost:
            self._waiting.pop(waiting.ticket, None)
            if waiting.api is not METADATA:
                failure = f"{self._cluster.name} {node.address}: {reason}"
                self._failed.append(Completion(waiting.ticket, failure=failure))

    def close(self) -> None:
        for node_id in self._nodes:
            self._drop(node_id, "the connection was closed")
        if self._asking is None:
            self._metadata.close()
        else:
            self._asking.add_done_callback(lambda _: self._metadata.close())


def _aside(node: int) -> int:
    """Node ids are not negative."""
    return -1 - node


def _logged_in_again(channel: Channel, versions: Versions) -> Opened:
    """The channel's connection; it is closed where the login failed."""
    connection = channel.connection
    connection.socket.settimeout(connection.timeout_s)
    try:
        connection.log_in_again()
    except BaseException:
        connection.close()
        raise
    return connection, versions


def _close_opened(opening: Future[Opened]) -> None:
    """What was opened for a node that has been given up meanwhile."""
    if not opening.cancelled() and opening.exception() is None:
        connection, _ = opening.result()
        connection.close()


def _in_order(waiting: Waiting, parts: Sequence[Part]) -> tuple[Part | None, ...]:
    """Parts of a response by the partitions that were asked for; None where the broker left one out."""
    found = {(part.topic, part.partition): part for part in parts}
    return tuple(
        found.get((topic_id_bytes(p.topic_id) if waiting.by_id else p.topic, p.partition))
        for p in waiting.asked
    )


def _names_topics(waiting: Waiting) -> bool:
    """Whether its answer may be about another topic than was meant."""
    return waiting.api is not METADATA and not waiting.by_id


def _are_these(waiting: Waiting, node: Node) -> bool:
    """Whether the broker has just said that the topics that a request names are those that are meant."""
    since = time.monotonic() - _NAMES_LAST_S
    for at in waiting.asked:
        topic_id, said_at = node.named.get(at.topic, _UNSAID)
        if topic_id != at.topic_id or said_at < since:
            return False
    return True


def _not_sent(at: TopicPartition) -> Produced:
    """Of a request that names a topic that is another one by now; what else is in it is sent again."""
    message = "nothing was sent"
    return Produced(at.topic, at.partition, ErrorCode.INCONSISTENT_TOPIC_ID, -1, message)


def _of_these_topics(waiting: Waiting, answer: Completion, found: Mapping[str, str | None]) -> Completion:
    """An answer by names, once it is known which topics they are: what is of another topic is as an answer by id."""

    def error(at: TopicPartition) -> ErrorCode | None:
        if at.topic not in found:
            return ErrorCode.INCONSISTENT_TOPIC_ID  # the broker does not say: it is asked again
        return None if found[at.topic] == at.topic_id else ErrorCode.UNKNOWN_TOPIC_ID

    fetched = tuple(
        part
        if part is None or (code := error(at)) is None
        else replace(part, error=code, records=memoryview(b""))
        for at, part in zip(waiting.asked, answer.fetched, strict=False)
    )
    produced = tuple(
        part if part is None or (code := error(at)) is None else replace(part, error=code)
        for at, part in zip(waiting.asked, answer.produced, strict=False)
    )
    return replace(answer, fetched=fetched, produced=produced)


# Network ------------------------------------------------------------------------------------------


class KafkaNetwork:
    """Implements `Network`: one selector over the channels of both clusters."""

    def __init__(self, source: ClusterConfig, target: ClusterConfig, *, request_timeout_s: float) -> None:
        self.request_timeout_s = request_timeout_s
        self._selector = selectors.DefaultSelector()
        self._tickets = 0
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka-link")
        self._bell, self._ring = socket.socketpair()  # rung by threads that have brought something
        for end in (self._bell, self._ring):
            end.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self.source = KafkaLink(source, self)
        self.target = KafkaLink(target, self)

    @property
    def is_idle(self) -> bool:
        return self.source.is_idle and self.target.is_idle

    def in_background(self, work: Callable[[], Brought]) -> "Future[Brought]":
        """Do blocking work on a thread; `poll` is woken when it is done."""
        future = self._threads.submit(work)
        future.add_done_callback(lambda _: self._wake())
        return future

    def _wake(self) -> None:
        with suppress(OSError):  # full: rung already; closed: nobody listens any more
            self._ring.send(b"!")

    def next_ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def watch(self, link: KafkaLink, node_id: int, channel: Channel) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.has_outgoing else 0)
        known = self._selector.get_map().get(channel.socket)
        if known is None:
            self._selector.register(channel.socket, events, (link, node_id))
        elif known.events != events:
            self._selector.modify(channel.socket, events, (link, node_id))

    def unwatch(self, channel: Channel) -> None:
        """A channel that is lost at its first request was never watched."""
        if channel.socket in self._selector.get_map():
            self._selector.unregister(channel.socket)

    def poll(self, timeout_s: float) -> list[Completion]:
        completions: list[Completion] = []
        has_failed = self.source.has_failed or self.target.has_failed
        for key, _events in self._selector.select(0 if has_failed else timeout_s):
            if key.fileobj is self._bell:
                self._answer_bell()
                continue
            link, node_id = key.data
            completions += link.serve(node_id)
        return [*completions, *self.source.take_failed(), *self.target.take_failed()]

    def _answer_bell(self) -> None:
        with suppress(BlockingIOError):
            while self._bell.recv(1024):
                pass
        for link in (self.source, self.target):
            link.take_metadata()
            link.take_opened()

    def close(self) -> None:
        self.source.close()
        self.target.close()
        self._threads.shutdown(wait=False)
        self._selector.close()
        self._bell.close()
        self._ring.close()


# Kept networks ------------------------------------------------------------------------------------
# Connections that outlive a copy task: one network per worker process and pair of clusters.


_kept: dict["KeptNetwork", KafkaNetwork] = {}


@dataclass(frozen=True)
class KeptNetwork:
    """A picklable factory: gives the worker's network of two clusters, connecting it once.

    A network with requests in flight was left behind by a task that failed: it is closed, so that nothing
    of it reaches the next attempt.
    """

    source: ClusterConfig
    target: ClusterConfig
    request_timeout_s: float

    def __hash__(self) -> int:
        return hash(
            (self.source.name, self.target.name, self.source.bootstrap_servers, self.target.bootstrap_servers)
        )

    def __call__(self) -> KafkaNetwork:
        kept = _kept.pop(self, None)
        if kept is not None and not kept.is_idle:
            kept.close()
            kept = None
        if kept is None:
            for cluster in (self.source, self.target):
                prepare_login(cluster, os.environ)
        _kept[self] = kept or KafkaNetwork(self.source, self.target, request_timeout_s=self.request_timeout_s)
        return _kept[self]
