"""Clusters that mirror one topic name to each other, and applications that write on every side."""

import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ledger.adopt.adopting import Consent, Verdict, adopt_flow
from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.mirror.progress import RunSummary
from ledger.recorders.observation import Subject
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import Delivery, create_topics
from ledger.store import answers, sql
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.drivers import Driver
from tests.support.recorded import broken_invariants, gaps
from tests.support.runs import NOTHING, run, running
from tests.support.waiting import eventually

PARTITIONS = 2
_ENDED_WITHIN_S = 120.0
BOTH_WAYS = [("east", "west"), ("west", "east")]
_BURST = 6
_BURSTS_PER_PRODUCER = 8
_PAUSE_S = 0.2


@dataclass(frozen=True)
class Mesh:
    """Flows between clusters that keep the names of topics, all recorded in one ledger."""

    config: MirrorConfig
    topic: str
    servers: Mapping[str, str]
    spark: SparkSession

    def run(self, flow: str) -> RunSummary:
        """One run until caught up."""
        return run(self.config, self.spark, flow)

    def run_all(self) -> int:
        """Every flow once, one after the other, until caught up; returns how many records were copied."""
        summaries = [self.run(flow) for flow in self.config.flows]
        assert not any(summary.is_unfinished for summary in summaries)
        return sum(summary.records for summary in summaries)

    @contextmanager
    def running(self, flow: str, *, recorded: frozenset[Subject] = NOTHING) -> Iterator[None]:
        """A driver beside the body, in this process; asked to stop when the body ends."""
        with running(self.config, self.spark, flow, recorded=recorded) as driver:
            yield
        assert not driver.result().is_unfinished

    @contextmanager
    def killed_afterwards(self, flow: str) -> Iterator[None]:
        """A driver beside the body, as a process of its own that gets SIGKILL, its JVM and workers too."""
        driver = Driver(self.config, Path(self.config.file).with_suffix(f".{flow}.log"), flow=flow)
        try:
            yield
            assert driver.process.poll() is None, "the driver was running until it was killed"
        finally:
            driver.end()

    def values(self, cluster: str) -> Counter[bytes]:
        """What a reader of committed records sees on a cluster, and how often."""
        readings = read_topics(self.servers[cluster], [self.topic])
        return Counter(placed.record.value or b"" for records in readings.values() for placed in records)

    def gaps(self, flow: str) -> Counter[str]:
        """Source offsets without a copied record, by cause."""
        return Counter(gaps(self.config, flow))


def make_mesh(
    clusters: Mapping[str, SandboxCluster],
    spark: SparkSession,
    folder: Path,
    topic: str,
    directions: Sequence[tuple[str, str]],
    *,
    extra: str = "",
) -> Mesh:
    """A ledger, and a flow `SOURCE-to-TARGET` for each direction; the topic is for the caller to create.

    `extra`: more lines of each flow's configuration.
    """
    servers = servers_of(clusters)
    flows = {f"{source}-to-{target}": _flow(topic, source, target, extra) for source, target in directions}
    config = write_config(folder, servers, flows)
    init_ledger(config)
    return Mesh(config, topic, servers, spark)


def _flow(topic: str, source: str, target: str, extra: str) -> str:
    return f"""
source = "{source}"
target = "{target}"
topics = ["{topic}"]
topic_naming = "identity"
target_mode = "shared"
round_seconds = 0.6
{extra}
"""


# Applications ----------------------------------------------------------------------------------


@dataclass
class Application:
    """Writes to every partition until told to stop; takes a new producer, with a new id, now and then."""

    servers: str
    topic: str
    name: str
    properties: Mapping[str, object]
    written: list[bytes] = field(default_factory=list)
    _taken: int = 0

    def work(self, is_over: threading.Event) -> None:
        while not is_over.is_set():
            producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, **self.properties})
            self._prepare(producer)
            for _ in range(_BURSTS_PER_PRODUCER):
                self._burst(producer)
                is_over.wait(_PAUSE_S)

    def write_once(self) -> None:
        """A few records by one producer, to their acknowledgement."""
        producer = Producer({"bootstrap.servers": self.servers, **self.properties})
        self._prepare(producer)
        self._burst(producer)

    def _prepare(self, producer: Producer) -> None:
        """Before the first record of a producer."""

    def _burst(self, producer: Producer) -> None:
        self.written += self._send(producer)
        assert producer.flush(60) == 0

    def _send(self, producer: Producer) -> list[bytes]:
        values = [f"{self.name}-{self._taken + number}".encode() for number in range(_BURST)]
        self._taken += _BURST
        for number, value in enumerate(values):
            producer.produce(self.topic, value=value, key=value[-1:], partition=number % PARTITIONS)
        return values


class TransactionalApplication(Application):
    """One transaction a burst; every third is aborted."""

    def _prepare(self, producer: Producer) -> None:
        producer.init_transactions(60)

    def _burst(self, producer: Producer) -> None:
        producer.begin_transaction()
        values = self._send(producer)
        if self._taken // _BURST % 3 == 0:
            assert producer.flush(60) == 0
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            self.written += values


def applications(mesh: Mesh, cluster: str, life: str = "") -> list[Application]:
    """One of each kind of producer; `life` tells several of a cluster apart."""
    servers, name = mesh.servers[cluster], f"{cluster}{life}"
    transactional_id = {"transactional.id": f"{mesh.topic}-{name}"}
    return [
        Application(servers, mesh.topic, f"{name}-idempotent", {"enable.idempotence": True}),
        Application(servers, mesh.topic, f"{name}-plain", {"enable.idempotence": False, "acks": "all"}),
        TransactionalApplication(servers, mesh.topic, f"{name}-transactional", transactional_id),
    ]


@contextmanager
def at_work(workers: Sequence[Application]) -> Iterator[None]:
    """The applications write while the body runs; their failures are raised at its end."""
    is_over = threading.Event()
    with ThreadPoolExecutor(max_workers=len(workers)) as pool:
        futures = [pool.submit(worker.work, is_over) for worker in workers]
        try:
            yield
        finally:
            is_over.set()
        for future in futures:
            future.result(_ENDED_WITHIN_S)


def written(workers: Sequence[Application]) -> Counter[bytes]:
    """All that was committed, each record once."""
    return Counter(value for worker in workers for value in worker.written)


# -- Scenarios of a mesh ---------------------------------------------------------------------------

GOES_ON = 'on_source_recreated = "continue"\non_target_recreated = "continue"'


def mesh_of(
    clusters: Mapping[str, SandboxCluster],
    spark: SparkSession,
    folder: Path,
    directions: Sequence[tuple[str, str]],
    *,
    extra: str = "",
    configuration: Mapping[str, str] | None = None,
) -> Mesh:
    """A topic of the same name on all clusters, and a flow in each direction."""
    topic = f"mesh-{uuid.uuid4().hex[:6]}"
    for cluster in clusters.values():
        create_topics(cluster.bootstrap_servers, [topic], partitions=PARTITIONS, configuration=configuration)
    return make_mesh(clusters, spark, folder, topic, directions, extra=extra)


def write(*workers: Application) -> None:
    """A few records of each producer, one producer after the other."""
    for worker in workers:
        worker.write_once()


def recreate(mesh: Mesh, cluster: str) -> None:
    admin = AdminClient({"bootstrap.servers": mesh.servers[cluster], "log_level": 0})
    admin.delete_topics([mesh.topic])[mesh.topic].result(30)
    eventually(lambda: mesh.topic not in admin.list_topics(timeout=30).topics, "the topic is deleted")
    create_topics(mesh.servers[cluster], [mesh.topic], partitions=PARTITIONS)


def holds(mesh: Mesh, cluster: str, prefix: str) -> bool:
    return any(value.startswith(prefix.encode()) for value in mesh.values(cluster))


def differences(found: Counter[bytes], expected: Counter[bytes]) -> dict[str, list[tuple[bytes, int]]]:
    return {"too many": (found - expected).most_common(3), "missing": (expected - found).most_common(3)}


def assert_at_rest(mesh: Mesh, everything: Counter[bytes], *, further_runs: int = 1) -> None:
    """Each cluster holds everything once, and further runs of all flows neither copy nor change anything."""
    for _ in range(further_runs):
        assert mesh.run_all() == 0
    for cluster in mesh.servers:
        assert differences(mesh.values(cluster), everything) == {"too many": [], "missing": []}, cluster
    assert broken_invariants(mesh.config) == {}


# -- A mesh taken over from something else ---------------------------------------------------------

BOTH_WAYS = [("east", "west"), ("west", "east")]


def copy_as_mirror_maker_does(mesh: Mesh) -> None:
    """Under the same name (IdentityReplicationPolicy), by a producer that no ledger knows."""
    delivery = Delivery(mesh.servers["west"], {})
    for (topic, partition), placed in read_topics(mesh.servers["east"], [mesh.topic]).items():
        for found in placed:
            delivery.send(topic, partition, found.record)
    delivery.finish()


def adopt(mesh: Mesh) -> set[Verdict]:
    nothing = Consent(missing=False, foreign=False)
    with Context(mesh.config) as context:
        adoptions = adopt_flow(context, "east-to-west", topics=(), consent=nothing)
    return {adoption.verdict for adoption in adoptions}


def ran(mesh: Mesh) -> frozenset[str]:
    return frozenset(sql.flows(answers.snapshot(mesh.config, None)))


def mirrored_before(
    pair: Mapping[str, SandboxCluster], spark: SparkSession, folder: Path
) -> tuple[Mesh, Counter[bytes]]:
    """Flows that have not run, and what `east` holds and somebody else has copied."""
    topic = f"both-{uuid.uuid4().hex[:6]}"
    for cluster in pair.values():
        create_topics(cluster.bootstrap_servers, [topic], partitions=PARTITIONS)
    mesh = make_mesh(pair, spark, folder, topic, BOTH_WAYS)
    east = applications(mesh, "east")
    for worker in east:
        worker.write_once()
    copy_as_mirror_maker_does(mesh)
    return mesh, written(east)
