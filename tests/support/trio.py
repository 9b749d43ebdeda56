"""Three brokers: who leads a partition, who is in sync, an election that loses records, and one that hangs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from ledger.kafka.network import KafkaNetwork
from ledger.sandbox import Sandbox
from tests.support.copies import Pair, limits
from tests.support.waiting import eventually

LEADER, FOLLOWER, OTHER = 1, 2, 3
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
"""Settings of a topic with replicas on the first two, whose end `lose_the_end` takes."""


@dataclass(frozen=True)
class Trio:
    """The cluster `trio`, three brokers."""

    sandbox: Sandbox

    @property
    def servers(self) -> str:
        return self.sandbox.status()["trio"].bootstrap_servers

    def heal(self) -> None:
        """All brokers run and are in sync again."""
        self.sandbox.start("trio")

    def leader(self, topic: str, partition: int = 0) -> int:
        """Node id; -1 without a leader, or as long as no broker has heard of the partition."""
        found = self._partition(topic, partition)
        return -1 if found is None else found.leader

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        found = self._partition(topic, partition)
        return [] if found is None else sorted(found.isrs)

    def kill(self, node: int) -> None:
        self.sandbox.kill("trio", node)

    def start(self, node: int) -> None:
        self.sandbox.start("trio", node)

    def create(self, topic: str, replicas: Sequence[Sequence[int]], settings: Mapping[str, str]) -> None:
        """A topic whose replicas lie on these nodes, the first of each partition leading."""
        new = NewTopic(
            topic,
            len(replicas),
            replica_assignment=[list(nodes) for nodes in replicas],
            config=dict(settings),
        )
        client = AdminClient({"bootstrap.servers": self.servers})
        client.create_topics([new])[topic].result(30)
        eventually(lambda: self.leader(topic) == replicas[0][0], f"{topic} has its leader")

    def lose_the_end(
        self, topics: Sequence[str], leader: int, follower: int, write: Callable[[], None]
    ) -> None:
        """An unclean election: `write` reaches the leader alone, and the follower leads after it."""
        self.kill(follower)
        self._wait(topics, lambda topic: self.in_sync(topic) == [leader], "the follower is out of sync")
        write()
        self.kill(leader)
        self.start(follower)
        self._wait(topics, lambda topic: self.leader(topic) == follower, "the follower leads")
        self.start(leader)
        both = sorted([leader, follower])
        self._wait(topics, lambda topic: self.in_sync(topic) == both, "both are in sync")

    def _wait(self, topics: Sequence[str], condition: Callable[[str], bool], what: str) -> None:
        eventually(lambda: all(condition(topic) for topic in topics), what)

    def _partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        client = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        return client.list_topics(topic, timeout=10).topics[topic].partitions.get(partition)


@pytest.fixture(scope="session")
def trio_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("trio") / "sandbox")
    try:
        sandbox.up(["trio"], brokers=3)
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture
def trio(trio_sandbox: Sandbox) -> Iterator[Trio]:
    made = Trio(trio_sandbox)
    yield made
    made.heal()


# -- One that hangs under a copy -------------------------------------------------------------------

QUICK = limits(request_timeout_ms=5_000)


def assert_others_go_on_while_one_hangs(trio: Trio, *, is_connected: bool) -> None:
    """Partitions without a replica on it are copied to their ends; `is_connected`: the task had spoken with it."""
    both = {"source": trio.servers, "target": trio.servers}
    with Pair(both, both, partitions=3, limits=QUICK) as pair, closing(pair.network()) as network:
        spread = [trio.leader(pair.topics["source"], p) for p in range(3)]
        landing = [trio.leader(pair.topics["target"], p) for p in range(3)]
        hung = spread[0]
        free = [p for p in range(3) if hung not in (spread[p], landing[p])]
        assert free, "every partition has a replica of its own broker"
        before = 30 if is_connected else 0
        if is_connected:
            pair.produce(before)
            pair.run(network=network)
        pair.produce(300, start=before)
        trio.sandbox.pause("trio", hung)
        try:
            started = time.monotonic()
            results = pair.run(seconds=8, to_the_end=False, network=network)
            took = time.monotonic() - started
            assert results[0].stop is None
            assert results[0].trouble is not None
            eventually(lambda: _reached(pair, network, free, (before + 300) // 3), "the others are copied")
        finally:
            trio.sandbox.resume("trio", hung)
        assert took < 15
        eventually(lambda: trio.leader(pair.topics["source"]) == hung, "the broker leads again")
        eventually(
            lambda: set(pair.ends()) == set(pair.ends("target")) == {0, 1, 2}, "all partitions are led"
        )
        pair.run(network=network)
        assert pair.assert_same() == before + 300


def _reached(pair: Pair, network: KafkaNetwork, partitions: list[int], end: int) -> bool:
    """Whether they are copied up to an end; a busy machine needs another round for it."""
    if all(pair.standing[partition].position.source_offset == end for partition in partitions):
        return True
    pair.run(seconds=3, to_the_end=False, network=network)
    return False
