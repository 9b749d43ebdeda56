"""Both links of a copy task behind `Network`: one selector over all their channels.

Nothing here waits for one broker while others could be served: connecting, logging in and asking for
metadata happen on threads, and what they bring is picked up by `poll`.
"""

import selectors
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from ledger.config.values import ClusterConfig
from ledger.kafka.copying import Completion
from ledger.kafka.link import Channel, KafkaLink, Waiting

Brought = TypeVar("Brought")
_THREADS = 16  # brokers that may hang at the same time without holding up others


class KafkaNetwork:
    """Implements `Network`: one selector over the channels of both clusters."""

    def __init__(self, source: ClusterConfig, target: ClusterConfig, *, request_timeout_s: float) -> None:
        self.request_timeout_s = request_timeout_s
        self._selector = selectors.DefaultSelector()
        self._tickets = 0
        self._waiting: dict[int, tuple[KafkaLink, Waiting]] = {}
        self._failed: list[Completion] = []
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka-link")
        self._bell, self._ring = socket.socketpair()  # rung by threads that have brought something
        for end in (self._bell, self._ring):
            end.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self.source = KafkaLink(source, self)
        self.target = KafkaLink(target, self)

    @property
    def is_idle(self) -> bool:
        """No request waits for its answer."""
        return not self._waiting and not self._failed

    def in_background(self, work: Callable[[], Brought]) -> "Future[Brought]":
        """Do blocking work on a thread; `poll` is woken when it is done."""
        future = self._threads.submit(work)
        future.add_done_callback(lambda _: self._wake())
        return future

    def _wake(self) -> None:
        with suppress(OSError):  # full: rung already; closed: nobody listens any more
            self._ring.send(b"!")

    def awaits(self, link: KafkaLink, node_id: int) -> bool:
        """Whether a request to the node waits for its answer."""
        return any(owner is link and waiting.node == node_id for owner, waiting in self._waiting.values())

    def next_ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def expect(self, link: KafkaLink, waiting: Waiting) -> None:
        self._waiting[waiting.ticket] = (link, waiting)

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
            if key.fileobj is self._bell:
                self._answer_bell()
                continue
            link, node_id = key.data
            for ticket, body in link.serve(node_id):
                owner, waiting = self._waiting.pop(ticket)
                completions.append(owner.completion(waiting, body))
        self._expire()
        failed, self._failed = self._failed, []
        return completions + failed

    def _answer_bell(self) -> None:
        with suppress(BlockingIOError):
            while self._bell.recv(1024):
                pass
        for link in (self.source, self.target):
            link.take_metadata()
            link.take_opened()

    def _expire(self) -> None:
        """A node is late when even its most patient request is."""
        now = time.monotonic()
        late: dict[tuple[KafkaLink, int], bool] = {}
        for link, waiting in self._waiting.values():
            at = (link, waiting.node)
            late[at] = late.get(at, True) and link.is_overdue(waiting, now)
        for (link, node_id), is_late in late.items():
            if is_late:
                link.expire(node_id)

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
        _kept[self] = kept or KafkaNetwork(self.source, self.target, request_timeout_s=self.request_timeout_s)
        return _kept[self]
