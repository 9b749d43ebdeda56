"""A flow of its own for each fault test: topics, ledger, configuration, and the driver as a real process."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable

from ledger import app, catalog
from ledger.adapters.kafka.admin import KafkaAdmin
from ledger.adapters.system import SystemClock
from ledger.config import MirrorConfig, load_config
from ledger.sandbox import SandboxCluster

PARTITIONS = 3
DEADLINE_S = 120.0
_numbers = itertools.count(1)


@dataclass(frozen=True)
class FaultFlow:
    """A topic on `east`, a flow that mirrors it to `west`, and an empty ledger. Leaving it closes its clients."""

    config_file: Path
    config: MirrorConfig
    topic: str
    pair: Mapping[str, SandboxCluster]
    log: Path
    admins: dict[str, KafkaAdmin]

    def __enter__(self) -> "FaultFlow":
        return self

    def __exit__(self, *_: object) -> None:
        for admin in self.admins.values():
            admin.close()

    @property
    def target_topic(self) -> str:
        return f"east.{self.topic}"

    def admin(self, alias: str) -> KafkaAdmin:
        if alias not in self.admins:
            self.admins[alias] = KafkaAdmin(alias, self.config.cluster(alias), SystemClock())
        return self.admins[alias]

    def target_records(self) -> int:
        """Records on the target so far; 0 before its topic exists."""
        admin = self.admin("west")
        if self.target_topic not in admin.topics():
            return 0
        ends = admin.ends([(self.target_topic, partition) for partition in range(PARTITIONS)])
        return sum(end.high_watermark for end in ends.values())

    def start(self, *arguments: str) -> "Driver":
        return Driver(self, arguments)

    def start_command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Another command, to its end."""
        return run_command("--config", str(self.config_file), *arguments)

    def rows(self, table: str) -> int:
        """How many rows a table of the ledger has."""
        return int(DeltaTable(f"{self.config.ledger.path}/{table}").to_pyarrow_table().num_rows)

    def offset_syncs(self) -> int:
        return self.rows("offset_syncs")

    def commit(self, group: str, partition: int, *, offset: int) -> None:
        """Commit an offset of the source topic for a group that is not running."""
        consumer = Consumer({"bootstrap.servers": self.pair["east"].bootstrap_servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition(self.topic, partition, offset)], asynchronous=False)
        consumer.close()

    def query(self, name: str, **params: str) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = app.run_query(
            app.snapshot(self.config, None), name, params
        ).to_pylist()
        return rows

    def broken_invariants(self) -> dict[str, list[dict[str, object]]]:
        """Rows that the audits of L1 to L6 return."""
        audits = [query.name for query in catalog.queries().values() if query.is_audit]
        assert len(audits) >= 6
        return {name: rows for name in audits if (rows := self.query(name))}


def run_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`mirror-ledger` with these arguments, as a process, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "ledger.cli.main", *arguments],
        capture_output=True,
        text=True,
        env=_environment(),
        timeout=DEADLINE_S,
        check=False,
    )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(app.__file__).parent.parent)}


class Driver:
    """`mirror-ledger run` as a process of its own; its words are in the flow's log."""

    def __init__(self, flow: FaultFlow, arguments: tuple[str, ...]) -> None:
        self._log = flow.log.open("ab")
        command = [sys.executable, "-m", "ledger.cli.main", "--config", str(flow.config_file), "run", "flow"]
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdout=self._log,
            stderr=self._log,
            env=_environment(),
            start_new_session=True,
        )

    def wait(self, timeout_s: float = DEADLINE_S) -> int:
        """The exit code."""
        code = self.process.wait(timeout_s)
        self._log.close()
        return code

    def ask_to_stop(self, number: signal.Signals) -> int:
        """Send the signal; returns the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def kill(self) -> None:
        """kill -9 of the driver alone: its JVM and its workers find out by themselves."""
        self.process.kill()
        self.wait()

    def end(self) -> None:
        """Whatever is left of it, its JVM included."""
        self._log.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.process.wait()


def make_flow(pair: Mapping[str, SandboxCluster], folder: Path, name: str, extra: str = "") -> FaultFlow:
    """A flow over a new topic; `extra` are more lines of the flow's configuration."""
    topic = f"{name}-{os.getpid()}-{next(_numbers)}"
    config_file = folder / "mirror.toml"
    config_file.write_text(
        f"""
[ledger]
path = "{folder / "ledger"}"
[clusters.east]
bootstrap_servers = "{pair["east"].bootstrap_servers}"
[clusters.west]
bootstrap_servers = "{pair["west"].bootstrap_servers}"
[flows.flow]
source = "east"
target = "west"
topics = ["{topic}"]
round_seconds = 1.0
{extra}
""",
        encoding="utf-8",
    )
    config = load_config(config_file)
    app.init_ledger(config)
    flow = FaultFlow(config_file, config, topic, pair, folder / "driver.log", {})
    flow.admin("east").create_topic(topic, partitions=PARTITIONS, replication_factor=1, configuration={})
    return flow


def produce(flow: FaultFlow, count: int, *, start: int = 0) -> None:
    """`count` records whose value is a serial from `start` on."""
    producer = Producer({"bootstrap.servers": flow.pair["east"].bootstrap_servers, "linger.ms": 5})
    for serial in range(start, start + count):
        producer.produce(flow.topic, str(serial).encode() + b"." * 100, partition=serial % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


@contextmanager
def steady_load(flow: FaultFlow, *, seconds: float, per_second: int) -> Iterator[None]:
    """Records for `seconds` at most, produced beside the body; the load has ended when the body has."""
    ended = threading.Event()

    def work() -> None:
        started, serial, step = time.monotonic(), 0, per_second // 20
        while not ended.is_set() and time.monotonic() < started + seconds:
            produce(flow, step, start=serial)
            serial += step
            ended.wait(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.2)
