"""What three brokers do with one partition: who leads it, who is in sync, and an election that loses records."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, NewTopic

from ledger.sandbox import Sandbox

DEADLINE_S = 40.0


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
        """Node id; -1 without a leader."""
        return int(self._partition(topic, partition).leader)

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        return sorted(self._partition(topic, partition).isrs)

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
        wait_for(lambda: self.leader(topic) == replicas[0][0], f"{topic} has its leader")

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
        wait_for(lambda: all(condition(topic) for topic in topics), what)

    def _partition(self, topic: str, partition: int) -> object:
        client = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        return client.list_topics(topic, timeout=10).topics[topic].partitions[partition]


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.1)
