"""A copy without Spark: two topics on real brokers, tasks over real connections, and what they made of it."""

import itertools
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition as ClientPartition
from kafka.admin import KafkaAdminClient

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig, SecretReference
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import OffsetSync, TopicPartition
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.batches import BatchHeader, batches
from ledger.kafka.copying import Completion
from ledger.kafka.network import KafkaNetwork
from ledger.kafka.requests import FetchItem
from ledger.mirror.assignment import Assignment, CopyLimits, PartitionResult
from ledger.mirror.task import CopyTask
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import read_topics
from tests.support.copy_tasks import BOTH_SEEN, copied_up_to, writers
from tests.support.forwarder import Forwarder, forwarding
from tests.support.waiting import eventually, leading_node

LIMITS = CopyLimits(request_timeout_ms=10_000)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # by their number in a batch's attributes
_numbers = itertools.count(1)


def config_of(
    alias: str, servers: str, properties: Mapping[str, str | SecretReference] | None = None
) -> ClusterConfig:
    return ClusterConfig(name=alias, bootstrap_servers=servers, properties=dict(properties or {}))


@dataclass
class Pair:
    """A topic at the source and its copy at the target, and where the copy stands by partition.

    `near` are the addresses that the test itself uses, `far` those of the copy, by side; `login` is what
    the copy presents there.
    """

    near: Mapping[str, str]
    far: Mapping[str, str]
    partitions: int = 1
    replicas: Mapping[str, int] = field(default_factory=lambda: {"source": 1, "target": 1})
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    login: Mapping[str, str | SecretReference] = field(default_factory=dict)
    exclusive: bool = True
    limits: CopyLimits = LIMITS
    syncs: list[OffsetSync] = field(default_factory=list)

    def __enter__(self) -> "Pair":
        self._stack = ExitStack()
        number = f"{os.getpid()}-{next(_numbers)}-{uuid.uuid4().hex[:6]}"
        self.topics = {side: f"{side}-{number}" for side in ("source", "target")}
        self.admins = {}
        for side, servers in self.near.items():
            admin = KafkaAdmin(side, config_of(side, servers), SystemClock())
            self.admins[side] = self._stack.enter_context(closing(admin))
            self.create(side)
        self._ids: dict[str, str] = {}
        for side in self.topics:
            self._know_id(side)
        self.producer_id = self.admins["target"].allocate_producer_id()
        self.standing: dict[int, PartitionResult] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def create(self, side: str) -> None:
        self.admins[side].create_topic(
            self.topics[side],
            partitions=self.partitions,
            replication_factor=self.replicas[side],
            configuration=dict(self.settings.get(side, {})),
        )

    def delete(self, side: str) -> None:
        client = AdminClient({"bootstrap.servers": self.near[side]})  # held until it has answered
        client.delete_topics([self.topics[side]])[self.topics[side]].result(30)

    def replace(self, side: str, create: Callable[[str], None]) -> None:
        """Have the topic of one side made otherwise, before anything is in it."""
        name, admin = self.topics[side], self.admins[side]
        self.delete(side)
        eventually(lambda: name not in admin.topics(), "the topic is gone")
        create(name)
        self._know_id(side)

    def _know_id(self, side: str) -> None:
        """Take the id from one answer: of several brokers one may know of a change before the next that is asked."""
        name, admin, former = self.topics[side], self.admins[side], self._ids.get(side)

        def is_known() -> bool:
            topic = admin.topics().get(name)
            if topic is None or topic.topic_id == former:
                return False
            self._ids[side] = topic.topic_id
            return True

        eventually(is_known, f"{name} is there, and not as it was")

    def configs(self) -> tuple[ClusterConfig, ClusterConfig]:
        source, target = (config_of(side, self.far[side], self.login) for side in ("source", "target"))
        return source, target

    def network(self, *, request_timeout_s: float = 10.0) -> KafkaNetwork:
        """Connections of a task of its own; close it."""
        return KafkaNetwork(*self.configs(), request_timeout_s=request_timeout_s)

    def ends(self, side: str = "source") -> dict[int, int]:
        """High watermarks by partition."""
        asked = [(self.topics[side], partition) for partition in range(self.partitions)]
        return {at[1]: end.high_watermark for at, end in self.admins[side].ends(asked).items()}

    def assignments(self, *, end_offset: Mapping[int, int] | None = None) -> list[Assignment]:
        """Every partition from where the results so far say that it stands."""
        made = []
        for partition in range(self.partitions):
            known = self.standing.get(partition)
            made.append(
                Assignment(
                    source=self.at("source", partition),
                    target=self.at("target", partition),
                    position=known.position if known else copied_up_to(0),
                    tail=BOTH_SEEN,
                    producer=FlowProducer(self.producer_id),
                    end_offset=None if end_offset is None else end_offset[partition],
                    exclusive=self.exclusive,
                )
            )
        return made

    def at(self, side: str, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.topics[side], self._ids[side], partition)

    def run(
        self,
        *,
        seconds: float = 30.0,
        to_the_end: bool = True,
        network: KafkaNetwork | None = None,
        limits: CopyLimits | None = None,
    ) -> list[PartitionResult]:
        """One task over all partitions; what it did is remembered as the ledger would."""
        assignments = self.assignments(end_offset=self.ends() if to_the_end else None)
        used = network or self.network()
        try:
            task = CopyTask(assignments, used, writers(), SystemClock(), limits or self.limits)
            return self.take(task.run(seconds=seconds))
        finally:
            if network is None:
                used.close()

    def take(self, results: Sequence[PartitionResult]) -> list[PartitionResult]:
        """Remember what a task did."""
        for result in results:
            self.standing[result.assignment.source.partition] = result
            self.syncs += result.syncs
        return sorted(results, key=lambda result: result.assignment.source.partition)

    def forget(self, partition: int = 0) -> None:
        """As if the driver had died before it recorded what the last task did."""
        del self.standing[partition]
        self.syncs = [sync for sync in self.syncs if sync.source.partition != partition]

    def producer_is_remembered(self) -> bool:
        """Whether the target's broker still knows the flow's producer id on partition 0."""
        client = KafkaAdminClient(bootstrap_servers=self.near["target"])
        try:
            at = ClientPartition(self.topics["target"], 0)
            producers = client.describe_producers([at])[at].active_producers
        finally:
            client.close()
        return any(known.producer_id == self.producer_id for known in producers)

    def produce(
        self,
        count: int,
        *,
        side: str = "source",
        size: int = 100,
        start: int = 0,
        age_ms: int = 0,
        client: Mapping[str, str | int] | None = None,
    ) -> None:
        """Records with a serial in their value, spread over the partitions in turn; `client` are producer settings."""
        timestamp_ms = int(time.time() * 1000) - age_ms
        producer = Producer(
            {"bootstrap.servers": self.near[side], "linger.ms": 5, "acks": "all", **(client or {})}
        )
        for serial in range(start, start + count):
            value = b"%d." % serial + b"v" * size
            partition = serial % self.partitions
            while True:
                try:
                    producer.produce(
                        self.topics[side], value, b"%d" % serial, partition, timestamp=timestamp_ms
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        assert producer.flush(60) == 0

    def stored(
        self, side: str, partition: int = 0, *, network: KafkaNetwork | None = None
    ) -> list[tuple[BatchHeader, memoryview]]:
        """Batches at the start of a partition, as the broker keeps them: up to a few megabytes."""
        used = network or self.network()
        try:
            link = used.source if side == "source" else used.target
            asked = self.at(side, partition)
            node = leading_node(link, asked)
            link.fetch(node, [FetchItem(asked, 0, 10**7)], committed=False, max_wait_ms=0, max_bytes=10**7)
            (fetched,) = one_answer(used).fetched
            assert fetched is not None
            return list(batches(fetched.records))
        finally:
            if network is None:
                used.close()

    def codecs(self, side: str) -> set[str]:
        """Names of the codecs that the batches of partition 0 have."""
        return {CODECS[header.codec] for header, _ in self.stored(side)}

    def assert_same(self) -> int:
        """Target and source hold the same records in the same order, and the offset syncs say where."""
        total = 0
        source = read_topics(self.near["source"], [self.topics["source"]])
        target = read_topics(self.near["target"], [self.topics["target"]])
        for partition in range(self.partitions):
            wanted = source[self.topics["source"], partition]
            found = target[self.topics["target"], partition]
            assert [placed.record for placed in found] == [placed.record for placed in wanted]
            self._assert_syncs(partition, {p.offset: p.record for p in found}, wanted)
            total += len(found)
        return total

    def _assert_syncs(self, partition: int, target: Mapping[int, object], wanted: Sequence[object]) -> None:
        syncs = [sync for sync in self.syncs if sync.source.partition == partition]
        position = 0
        for sync in syncs:
            assert sync.source_start == position, "offset syncs tile the source"
            position = sync.source_end
        landed = {s: t for sync in syncs for s, t in landings(sync)}
        assert {p.offset: landed[p.offset] for p in wanted} == landed  # type: ignore[attr-defined]
        assert all(target[landed[p.offset]] == p.record for p in wanted)  # type: ignore[attr-defined]


def one_answer(network: KafkaNetwork) -> Completion:
    """The answer to the one request that was sent."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for completion in network.poll(0.1):
            return completion
    raise AssertionError("no answer within 10 s")


def landings(sync: OffsetSync) -> list[tuple[int, int]]:
    """(source offset, target offset) of every record that an offset sync covers."""
    gone = {offset for gap in sync.gaps for offset in range(gap.source_start, gap.source_end)}
    kept = [offset for offset in range(sync.source_start, sync.source_end) if offset not in gone]
    return [(offset, sync.target_start + index) for index, offset in enumerate(kept)]


def limits(**changed: int) -> CopyLimits:
    return replace(LIMITS, **changed)


# -- Fixtures --------------------------------------------------------------------------------------

SIDES = {"source": "east", "target": "west"}


@pytest.fixture
def lines(broker_pair: Mapping[str, SandboxCluster]) -> Iterator[dict[str, Forwarder]]:
    """A forwarder before the source's and one before the target's broker, by side."""
    with ExitStack() as stack:
        made = {}
        for side, alias in SIDES.items():
            (broker,) = broker_pair[alias].brokers
            assert broker.far is not None
            made[side] = stack.enter_context(forwarding(broker.far))
        yield made


def near(broker_pair: Mapping[str, SandboxCluster]) -> dict[str, str]:
    return {side: broker_pair[alias].bootstrap_servers for side, alias in SIDES.items()}


@pytest.fixture
def far_copy(broker_pair: Mapping[str, SandboxCluster], lines: dict[str, Forwarder]) -> Iterator[Pair]:
    """Two partitions, copied over the forwarders."""
    far = {side: line.address for side, line in lines.items()}
    with Pair(near(broker_pair), far, partitions=2) as pair:
        yield pair


@pytest.fixture
def near_copy(broker_pair: Mapping[str, SandboxCluster], request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two partitions, copied without a forwarder; a parameter gives settings of the source topic."""
    servers = near(broker_pair)
    settings = {"source": getattr(request, "param", {})}
    with Pair(servers, servers, partitions=2, settings=settings) as pair:
        yield pair
