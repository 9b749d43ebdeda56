"""Clusters that mirror one topic name to each other, and applications that write on every side."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from ledger import app, catalog
from ledger.adapters.duck import engine
from ledger.config import MirrorConfig, load_config
from ledger.mirror.run_summary import RunSummary
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import read_topics

PARTITIONS = 2
DEADLINE_S = 300.0  # an upper bound, for machines that are busy
_BURST = 6
_BURSTS_PER_PRODUCER = 8
_PAUSE_S = 0.2


@dataclass(frozen=True)
class Mesh:
    """Flows between clusters that keep the names of topics, all recorded in one ledger."""

    config_file: Path
    config: MirrorConfig
    topic: str
    servers: Mapping[str, str]
    spark: SparkSession

    def run(
        self, flow: str, *, until_caught_up: bool = True, stop: threading.Event | None = None
    ) -> RunSummary:
        return app.run_flow(
            self.config,
            flow,
            session=lambda: self.spark,
            until_caught_up=until_caught_up,
            stop=stop or threading.Event(),
            on_round=lambda _so_far: None,
        )

    def run_all(self) -> int:
        """Every flow once, one after the other, until caught up; returns how many records were copied."""
        summaries = [self.run(flow) for flow in self.config.flows]
        assert [summary.stopped for summary in summaries] == [[] for _ in summaries]
        return sum(summary.records for summary in summaries)

    @contextmanager
    def running(self, flow: str) -> Iterator[None]:
        """A driver beside the body, in this process; asked to stop when the body ends."""
        stop = threading.Event()
        with ThreadPoolExecutor(max_workers=1) as pool:
            driver: Future[RunSummary] = pool.submit(self.run, flow, until_caught_up=False, stop=stop)
            try:
                yield
            finally:
                stop.set()
            assert driver.result(DEADLINE_S).stopped == []

    @contextmanager
    def killed_afterwards(self, flow: str) -> Iterator[None]:
        """A driver beside the body, as a process of its own that gets SIGKILL, its JVM and workers too."""
        command = [sys.executable, "-m", "ledger.cli.main", "--config", str(self.config_file), "run", flow]
        with self.config_file.with_suffix(f".{flow}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=_environment(), start_new_session=True
            )
            try:
                yield
                assert process.poll() is None, "the driver was running until it was killed"
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def values(self, cluster: str) -> Counter[bytes]:
        """What a reader of committed records sees on a cluster, and how often."""
        readings = read_topics(self.servers[cluster], [self.topic])
        return Counter(placed.record.value or b"" for records in readings.values() for placed in records)

    def gaps(self, flow: str) -> Counter[str]:
        """Source offsets without a copied record, by cause."""
        with engine.connect(app.snapshot(self.config, None), {}) as connection:
            rows = connection.execute(
                "select cause, sum(source_end - source_start)::bigint from gaps where flow = ? group by cause",
                [flow],
            ).fetchall()
        return Counter(dict(rows))

    def broken_invariants(self) -> dict[str, list[object]]:
        at = app.snapshot(self.config, None)
        audits = [query.name for query in catalog.queries().values() if query.is_audit]
        assert len(audits) >= 6
        return {name: rows for name in audits if (rows := app.run_query(at, name, {}).to_pylist())}


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
    servers = {alias: cluster.bootstrap_servers for alias, cluster in clusters.items()}
    sections = [f"""[clusters.{alias}]\nbootstrap_servers = "{at}"\n""" for alias, at in servers.items()]
    sections += [_flow(topic, source, target, extra) for source, target in directions]
    file = folder / "mesh.toml"
    file.write_text(f"""[ledger]\npath = "{folder / "ledger"}"\n""" + "".join(sections))
    config = load_config(file)
    app.init_ledger(config)
    return Mesh(file, config, topic, servers, spark)


def _flow(topic: str, source: str, target: str, extra: str) -> str:
    return f"""
[flows.{source}-to-{target}]
source = "{source}"
target = "{target}"
topics = ["{topic}"]
topic_naming = "identity"
target_mode = "shared"
round_seconds = 0.6
{extra}
"""


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(app.__file__).parent.parent)}


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
            future.result(DEADLINE_S)


def written(workers: Sequence[Application]) -> Counter[bytes]:
    """All that was committed, each record once."""
    return Counter(value for worker in workers for value in worker.written)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {DEADLINE_S:.0f} s: {what}"
        time.sleep(0.2)
