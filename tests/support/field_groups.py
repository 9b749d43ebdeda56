"""Groups of a cluster that nobody set up for a mirror: odd names, metadata, static members, commits anywhere."""

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from ledger.sandbox.reading import Partition
from ledger.sandbox.workload import TIMEOUT_S
from tests.support.hostile_names import HOSTILE

_CLIENTS = tuple(name for name in HOSTILE if name.strip())  # a client trims what it is configured with
_NAMES = (
    *_CLIENTS,
    "line\nfeed",
    "both\r\n",
    "connect-sink",
    "console-consumer-1",
    "__internal",
    "a.b",
    "a_b",
)
_STATIC = {"group.instance.id": "one", "session.timeout.ms": 1_800_000, "max.poll.interval.ms": 1_800_000}


@dataclass(frozen=True)
class FieldGroup:
    """Commits on these topics, with `metadata`; one that is static has a member that stays for half an hour."""

    name: str
    topics: tuple[str, ...]
    metadata: str | None
    is_static: bool
    chance: random.Random

    def commit(self, servers: str, ends: Mapping[Partition, int]) -> None:
        """Offsets in the logs of its topics, at their ends too."""
        said: dict[str, Any] = {} if self.metadata is None else {"metadata": self.metadata}
        asked = [
            ClientPartition(*at, self.chance.choice((0, end, self.chance.randint(0, end))), **said)
            for at, end in ends.items()
            if at[0] in self.topics
        ]
        properties = {"bootstrap.servers": servers, "group.id": self.name, "log_level": 0}
        with closing(Consumer({**properties, **(_STATIC if self.is_static else {})})) as consumer:
            if self.is_static:
                _join(consumer, self.topics)
            for done in consumer.commit(offsets=asked, asynchronous=False) or []:
                assert done.error is None, done.error


def _join(consumer: Consumer, topics: Sequence[str]) -> None:
    consumer.subscribe(list(topics))
    deadline_s = time.monotonic() + TIMEOUT_S
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < deadline_s, f"no member of {topics}"


def draw_groups(chance: random.Random, number: int, topics: Sequence[str]) -> list[FieldGroup]:
    """So many, those with odd names first."""
    odd = list(_NAMES)
    chance.shuffle(odd)
    names = [*odd, *(f"group-{serial}" for serial in range(number))][:number]
    return [
        FieldGroup(
            name,
            tuple(chance.sample(list(topics), k=min(len(topics), chance.choice((1, 1, 2, 4))))),
            chance.choice((None, "m:+1", "at 9")),
            chance.random() < 0.15,
            chance,
        )
        for name in names
    ]
