"""The network of a copy task to in-memory clusters, in simulated time and any weather.

Requests on one connection are executed and answered in order; connections to different nodes overtake
each other. When a connection is lost, a beginning of what was under way may still be executed, later
than everything that is sent on the next connection: the client cannot know.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Protocol

from ledger.errors import ClusterUnavailableError
from ledger.facts.syncs import TopicPartition
from ledger.kafka.copying import Completion
from ledger.kafka.requests import Fetched, FetchItem, ProduceItem
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.schedule import Schedule

_WINDOW = 5


class Fate(Enum):
    """What becomes of a request."""

    ANSWERED = auto()
    LOST_BEFORE = auto()  # the connection breaks, the broker has not executed it yet
    LOST_AFTER = auto()  # the broker has executed it, its answer is lost with the connection


class Weather(Protocol):
    """Decides what happens to requests."""

    def delay_s(self) -> float:
        """Time of one way."""
        ...

    def fate(self, *, is_fetch: bool) -> Fate: ...

    def survivors(self, waiting: int) -> int:
        """How many of the requests under way on a lost connection are executed all the same."""
        ...

    def lateness_s(self) -> float:
        """How much later those are executed."""
        ...

    def hears_of_leaders(self) -> bool:
        """Whether a metadata answer is up to date."""
        ...


@dataclass(frozen=True, slots=True)
class CalmWeather:
    """Every request is answered after the same time."""

    way_s: float = 0.001

    def delay_s(self) -> float:
        return self.way_s

    def fate(self, *, is_fetch: bool) -> Fate:  # noqa: ARG002  all alike
        return Fate.ANSWERED

    def survivors(self, waiting: int) -> int:
        return waiting

    def lateness_s(self) -> float:
        return 0.0

    def hears_of_leaders(self) -> bool:
        return True


@dataclass(slots=True)
class _Request:
    """`execute` returns the broker's answer; `None` once it is cancelled."""

    ticket: int
    execute: Callable[[], Completion] | None
    is_fetch: bool
    wait_s: float = 0.0
    is_late: bool = False


@dataclass(slots=True)
class _Connection:
    """Requests without an answer, oldest first, and when the last of them is executed and answered.

    `held`: what has arrived at a node that hangs. `orphans`: of a lost connection, what is still executed.
    """

    node: int
    waiting: list[_Request] = field(default_factory=list)
    held: list[tuple[_Request, Fate]] = field(default_factory=list)
    orphans: list[_Request] = field(default_factory=list)
    executed_at: float = 0.0
    answered_at: float = 0.0
    lateness_s: float = 0.0
    is_open: bool = True

    def cancel(self) -> None:
        """Nothing of a lost connection is executed any more: what comes later cannot overtake."""
        for request in self.orphans:
            request.execute = None


class MemoryLink:
    """Implements `ClusterLink`."""

    def __init__(self, cluster: MemoryCluster, network: "MemoryNetwork") -> None:
        self._cluster = cluster
        self._network = network
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}
        self._heard: dict[str, str | None] = {}
        self._connections: dict[int, _Connection] = {}
        self._lost: list[_Connection] = []
        cluster.on_restart.append(self._restarted)
        cluster.on_wake.append(self._woken)

    def leader(self, partition: TopicPartition) -> int | None:
        known = self._leaders.get((partition.topic_id, partition.partition))
        return None if known is None else known[0]

    def leader_epoch(self, partition: TopicPartition) -> int | None:
        known = self._leaders.get((partition.topic_id, partition.partition))
        return None if known is None else known[1]

    def is_deleted(self, partition: TopicPartition) -> bool:
        return self._heard.get(partition.topic, partition.topic_id) != partition.topic_id

    def is_denied(self, partition: TopicPartition) -> bool:
        return partition.topic in self._cluster.undescribable

    def refresh(self, topics: Sequence[str]) -> None:
        if not self._cluster.available:
            raise ClusterUnavailableError(f"cluster {self._cluster.alias!r}: no broker answers")
        if self._leaders and not self._network.weather.hears_of_leaders():
            return
        allowed = [name for name in topics if name not in self._cluster.undescribable]
        self._heard = {
            name: topic.topic_id if (topic := self._cluster.topic_by_name.get(name)) else None
            for name in allowed
        }
        known = [self._cluster.topic_by_name[name] for name in allowed if name in self._cluster.topic_by_name]
        self._leaders = {
            (topic.topic_id, partition): (leader, topic.logs[partition].leader_epoch)
            for topic in known
            for partition, leader in enumerate(topic.leaders)
            if leader is not None
        }

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
        ticket = self._network.next_ticket()
        asked = tuple(replace(item, leader_epoch=self.leader_epoch(item.partition)) for item in items)

        def execute() -> Completion:
            fetched = self._cluster.fetch(
                node, asked, committed=committed, max_bytes=max_bytes, nearest=nearest
            )
            return Completion(ticket, fetched=fetched)

        self._send(node, _Request(ticket, execute, is_fetch=True, wait_s=max_wait_ms / 1000))
        return ticket

    def produce(self, node: int, items: Sequence[ProduceItem], *, timeout_ms: int) -> int:  # noqa: ARG002
        ticket = self._network.next_ticket()
        sent = tuple(ProduceItem(item.partition, memoryview(bytes(item.batch))) for item in items)

        def execute() -> Completion:
            return Completion(ticket, produced=self._cluster.produce(max(node, self.aside(node)), sent))

        self._send(node, _Request(ticket, execute, is_fetch=False))
        return ticket

    def aside(self, node: int) -> int:
        """Of such a connection the node."""
        return -1 - node

    def produce_window(self, node: int) -> int:  # noqa: ARG002  all nodes are alike
        return _WINDOW

    @property
    def is_idle(self) -> bool:
        return not any(connection.waiting for connection in self._connections.values())

    # -- connections -----------------------------------------------------------------------------

    def _send(self, node: int, request: _Request) -> None:
        connection = self._connections.get(node)
        if connection is None or not connection.is_open:
            connection = self._connections[node] = _Connection(max(node, self.aside(node)))
        connection.waiting.append(request)
        weather, schedule = self._network.weather, self._network.schedule
        now = schedule.monotonic()
        connection.executed_at = max(connection.executed_at, now + weather.delay_s())
        fate = weather.fate(is_fetch=request.is_fetch)
        schedule.after(connection.executed_at - now, lambda: self._arrive(connection, request, fate))

    def _arrive(self, connection: _Connection, request: _Request, fate: Fate) -> None:
        if request.execute is None:
            return
        if connection.node in self._cluster.hung:
            self._hold(connection, request, fate)
        elif connection.is_open:
            self._serve(connection, request, request.execute, fate)
        elif not request.is_late:
            request.is_late = True
            self._network.schedule.after(
                connection.lateness_s, lambda: self._arrive(connection, request, fate)
            )
        elif self._cluster.available:
            request.execute()
        else:
            connection.cancel()

    def _hold(self, connection: _Connection, request: _Request, fate: Fate) -> None:
        """The node does not read: the client gives the connection up when its deadline has passed."""
        connection.held.append((request, fate))

        def expire() -> None:
            if connection.is_open and request in connection.waiting:
                self._lose(connection, "no answer in time")

        self._network.schedule.after(self._network.request_timeout_s, expire)

    def _woken(self, node: int) -> None:
        """What had arrived meanwhile is read, connection by connection, in the order of arrival."""
        known = [connection for connection in self._connections.values() if connection.is_open]
        for connection in (*self._lost, *known):
            if connection.node == node:
                held, connection.held = connection.held, []
                for request, fate in held:
                    self._arrive(connection, request, fate)

    def _serve(
        self, connection: _Connection, request: _Request, execute: Callable[[], Completion], fate: Fate
    ) -> None:
        if not self._cluster.available or fate is Fate.LOST_BEFORE:
            self._lose(connection)
            self._arrive(connection, request, fate)
            return
        request.execute = None
        answer = execute()
        self._network.executed(answer)
        if fate is Fate.LOST_AFTER:
            self._lose(connection)
        elif request.wait_s and not any(map(_is_worth_an_answer, answer.fetched)):
            self._network.schedule.after(request.wait_s, lambda: self._answer(connection, request, execute()))
        else:
            self._answer(connection, request, answer)

    def _answer(self, connection: _Connection, request: _Request, answer: Completion) -> None:
        if not connection.is_open:
            return
        now = self._network.schedule.monotonic()
        connection.answered_at = max(connection.answered_at, now + self._network.weather.delay_s())

        def deliver() -> None:
            if connection.is_open:
                connection.waiting.remove(request)
                self._network.answered(answer)

        self._network.schedule.after(connection.answered_at - now, deliver)

    def _lose(self, connection: _Connection, reason: str = "the connection was lost") -> None:
        """Break a connection: everything under way fails, a beginning of it is executed all the same."""
        connection.is_open = False
        connection.lateness_s = self._network.weather.lateness_s()
        under_way = [request for request in connection.waiting if request.execute is not None]
        kept = self._network.weather.survivors(len(under_way))
        connection.orphans = under_way[:kept]
        for request in under_way[kept:]:
            request.execute = None
        for request in connection.waiting:
            failure = f"{self._cluster.alias}: {reason}"
            self._network.answered(Completion(request.ticket, failure=failure))
        connection.waiting = []
        self._lost.append(connection)

    def lose_all(self) -> None:
        for connection in self._connections.values():
            if connection.is_open:
                self._lose(connection)

    def _restarted(self, node: int) -> None:
        """What a broker had not executed dies with it; nor does anything late outlive a restart."""
        for connection in self._connections.values():
            if connection.node == node and connection.is_open:
                self._lose(connection)
        for lost in self._lost:
            if lost.node == node:
                lost.cancel()
        self._lost = [lost for lost in self._lost if lost.node != node]


def _is_worth_an_answer(part: Fetched | None) -> bool:
    """A broker does not wait for more once it has such a part."""
    return part is not None and bool(part.records or part.error or part.preferred_replica is not None)


class MemoryNetwork:
    """Implements `Network`."""

    def __init__(
        self,
        source: MemoryCluster,
        target: MemoryCluster,
        schedule: Schedule,
        weather: Weather,
        *,
        request_timeout_s: float = 30.0,
    ) -> None:
        self.request_timeout_s = request_timeout_s
        self.schedule = schedule
        self.weather = weather
        self._tickets = 0
        self._inbox: list[Completion] = []
        self.source = MemoryLink(source, self)
        self.target = MemoryLink(target, self)

    @property
    def is_idle(self) -> bool:
        """No request waits for its answer."""
        return not self._inbox and self.source.is_idle and self.target.is_idle

    def next_ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def executed(self, answer: Completion) -> None:
        """A broker has done what was asked and its answer is not on its way yet; simulations look here."""

    def answered(self, completion: Completion) -> None:
        self._inbox.append(completion)

    def poll(self, timeout_s: float) -> list[Completion]:
        self.schedule.wait(timeout_s, lambda: bool(self._inbox))
        arrived, self._inbox = self._inbox, []
        return arrived

    def abandon(self) -> None:
        """The client is gone; what it had sent may still be executed."""
        self.source.lose_all()
        self.target.lose_all()
