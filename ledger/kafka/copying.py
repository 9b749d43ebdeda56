"""Kept connections of a copy task: fetches and produce requests, and their answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.facts.syncs import TopicPartition
from ledger.kafka.requests import Fetched, FetchItem, Produced, ProduceItem

_ONE_ANSWER_POLL_S = 0.2


class ClusterLink(Protocol):
    """Kept connections to one cluster. Requests are sent at once and answered through `Network.poll`."""

    def leader(self, partition: TopicPartition) -> int | None:
        """Node that leads the partition as last heard; None when unknown."""
        ...

    def leader_epoch(self, partition: TopicPartition) -> int | None:
        """Which leader that is, counted by the cluster; None when unknown."""
        ...

    def is_deleted(self, partition: TopicPartition) -> bool:
        """Whether, as last heard, the topic's name is unknown or belongs to another topic id."""
        ...

    def is_denied(self, partition: TopicPartition) -> bool:
        """Whether, as last heard, this principal may not even describe the topic."""
        ...

    def refresh(self, topics: Sequence[str]) -> None:
        """Ask for leaders again. Raises `ClusterUnavailableError` when no broker answers."""
        ...

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
        """Send a Fetch; the ticket returned comes back in one `Completion`.

        `nearest`: a leader may name a replica of this client's rack, which is to be asked instead.
        """
        ...

    def produce(self, node: int, items: Sequence[ProduceItem], *, timeout_ms: int) -> int:
        """Send a Produce with acks=all; the ticket returned comes back in one `Completion`."""
        ...

    def aside(self, node: int) -> int:
        """The same node by another connection: what is sent there waits for nothing that was sent by the first one.

        A broker takes up a connection's next request only when it has answered the one before.
        """
        ...

    def produce_window(self, node: int) -> int:
        """How many produce requests may be in flight to the node, from its round trip time."""
        ...


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to one request: partitions of the response in the order asked, or why there is none.

    `failure` says that the outcome is unknown: the connection was lost or the deadline passed. `throttle_ms`: for
    how long a quota made the broker hold back.
    """

    ticket: int
    fetched: tuple[Fetched | None, ...] = ()
    produced: tuple[Produced | None, ...] = ()
    failure: str | None = None
    throttle_ms: int = 0


class Network(Protocol):
    """Both sides of a copy task and the wait for whatever is answered first."""

    @property
    def source(self) -> ClusterLink: ...

    @property
    def target(self) -> ClusterLink: ...

    def poll(self, timeout_s: float) -> list[Completion]:
        """Answers that have arrived; waits up to `timeout_s` for the first."""
        ...


def answer_to(ticket: int, network: Network) -> Completion:
    """The answer to the one request that is waited for, or why there is none: a network fails what takes too long."""
    while True:
        for completion in network.poll(_ONE_ANSWER_POLL_S):
            if completion.ticket == ticket:
                return completion
