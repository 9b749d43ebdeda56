"""What a link remembers of one broker and of one request: plain state, no IO."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from ledger.adapters.kafka.connection.broker_connection import Address, BrokerConnection
from ledger.adapters.kafka.network.channel import Channel
from ledger.domain.facts import TopicPartition
from ledger.wire.requests import (
    FETCH_BY_ID,
    FETCH_BY_NAME,
    FETCH_KEY,
    PRODUCE_BY_ID,
    PRODUCE_BY_NAME,
    PRODUCE_KEY,
)

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
