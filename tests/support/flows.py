"""One flow under test: a topic on `east`, its copy on `west`, a ledger of its own, and drivers of either kind."""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ledger import Ledger
from ledger.answers.drivers import DriverState
from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import read_topics
from tests.support import recorded
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.drivers import Driver, command_of, descendants, is_running
from tests.support.runs import FLOW, run
from tests.support.shops import beside
from tests.support.waiting import eventually

PARTITIONS = 3
_LOAD_ENDS_AFTER_S = 240.0
_STEPS_PER_S = 20
_numbers = itertools.count(1)


@dataclass(frozen=True)
class FlowUnderTest:
    """Made by `flow_under_test`, which closes its clients and ends its drivers."""

    config: MirrorConfig
    topic: str
    pair: Mapping[str, SandboxCluster]
    log: Path
    admins: dict[str, KafkaAdmin] = field(default_factory=dict)
    drivers: list[Driver] = field(default_factory=list)

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

    def recorded_records(self) -> int:
        """Records that the ledger knows to be copied."""
        return sum(row["records"] for row in self.query("flow_status"))

    def wait_for_records(self, more: int) -> None:
        """Until the target has more than so many more records."""
        copied = self.target_records()
        eventually(lambda: self.target_records() > copied + more, f"{more} more records on the target")

    def start(self, *arguments: str) -> Driver:
        """`mirror-ledger run` as a process of its own."""
        driver = Driver(self.config, self.log, arguments)
        self.drivers.append(driver)
        return driver

    def finish(self, spark: SparkSession) -> None:
        """Run until caught up, in this process; nothing may have stopped."""
        assert not run(self.config, spark).is_unfinished

    def changed(self, line: str) -> MirrorConfig:
        """The configuration with one more line for the flow, in the same file."""
        file = Path(self.config.file)
        file.write_text(f"{file.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
        return load_config(file)

    def told(self) -> str:
        """What driver processes have said so far."""
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def commit(self, group: str, partition: int, *, offset: int) -> None:
        """Commit an offset of the source topic for a group that is not running."""
        consumer = Consumer({"bootstrap.servers": self.pair["east"].bootstrap_servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition(self.topic, partition, offset)], asynchronous=False)
        consumer.close()

    def rows(self, table: str) -> int:
        """How many rows a table of the ledger has."""
        return len(recorded.rows(self.config, table))

    def query(self, name: str) -> list[recorded.Row]:
        """The answer of a query that takes a flow."""
        return recorded.query(self.config, name, flow=FLOW)

    def assert_same_records(self) -> int:
        """Both sides hold the same records in the same order; returns how many."""
        source = read_topics(self.pair["east"].bootstrap_servers, [self.topic])
        target = read_topics(self.pair["west"].bootstrap_servers, [self.target_topic])
        assert len(source) == len(target) == PARTITIONS
        for (_, partition), placed in source.items():
            copied = target[(self.target_topic, partition)]
            assert [one.record for one in placed] == [one.record for one in copied]
        return sum(map(len, source.values()))

    def assert_faithful(self, *, at_least: int) -> None:
        """The sides are equal, hold so many records, and no audit finds anything."""
        assert self.assert_same_records() >= at_least
        assert recorded.broken_invariants(self.config) == {}


@contextmanager
def flow_under_test(
    pair: Mapping[str, SandboxCluster],
    folder: Path,
    name: str,
    extra: str = "",
    *,
    round_seconds: float = 1.0,
) -> Iterator[FlowUnderTest]:
    """A flow over a new topic of three partitions; `extra` are more lines of the flow's configuration.

    Says at the end what its driver processes said.
    """
    topic = f"{name}-{os.getpid()}-{next(_numbers)}"
    servers = servers_of(pair)
    lines = f'topics = ["{topic}"]\nround_seconds = {round_seconds}\n{extra}'
    config = write_config(folder, servers, {FLOW: lines})
    init_ledger(config)
    flow = FlowUnderTest(config, topic, pair, folder / "driver.log")
    try:
        flow.admin("east").create_topic(topic, partitions=PARTITIONS, replication_factor=1, configuration={})
        yield flow
    finally:
        for driver in flow.drivers:
            driver.end()
        for admin in flow.admins.values():
            admin.close()
        print(flow.told()[-4000:] or "no driver process was started")


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FlowUnderTest]:
    """A new one between the shared clusters."""
    with flow_under_test(broker_pair, tmp_path, "flow") as made:
        yield made


def _send(producer: Producer, topic: str, start: int, count: int) -> None:
    for serial in range(start, start + count):
        producer.produce(topic, str(serial).encode() + b"." * 100, partition=serial % PARTITIONS)
        producer.poll(0)


def produce(flow: FlowUnderTest, count: int, *, start: int = 0) -> None:
    """`count` records whose value is a serial from `start` on."""
    producer = Producer({"bootstrap.servers": flow.pair["east"].bootstrap_servers, "linger.ms": 5})
    _send(producer, flow.topic, start, count)
    assert producer.flush(60) == 0


@contextmanager
def steady_load(flow: FlowUnderTest, *, per_second: int, start: int = 0) -> Iterator[None]:
    """Records beside the body, to its end; serials from `start` on."""
    step = per_second // _STEPS_PER_S

    def work(ended: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": flow.pair["east"].bootstrap_servers, "linger.ms": 5})
        serial, last = start, start + int(_LOAD_ENDS_AFTER_S * per_second)
        while not ended.wait(1 / _STEPS_PER_S) and serial < last:
            _send(producer, flow.topic, serial, step)
            serial += step
        assert producer.flush(60) == 0

    with beside(work):
        yield


# -- Logs that lose their beginning -----------------------------------------------------------------


def delete_all(servers: str, topic: str) -> None:
    """DeleteRecords up to the end of every partition."""
    client = AdminClient({"bootstrap.servers": servers})
    asked = [TopicPartition(topic, partition, -1) for partition in range(PARTITIONS)]
    for deleted in client.delete_records(asked).values():
        deleted.result(30)


def expired(flow: FlowUnderTest) -> list[tuple[int, int]]:
    """Of each partition up to where the target's log was passed over, and the sequence from there on."""
    rows = recorded.rows(flow.config, "offset_syncs")
    found = [row for row in rows if (row["kind"], row["cause"]) == ("unpaired", "retention")]
    return [(row["target_end"], row["first_sequence"]) for row in found]


# -- Signals while Spark starts --------------------------------------------------------------------

Send = Callable[[int, int], None]
"""Sends a signal to a process or to its group: `os.kill`, `os.killpg`."""


def assert_ended_with_one_line(flow: FlowUnderTest, send: Send, number: signal.Signals, *, code: int) -> None:
    """It ends with the code and one line, and neither a process nor a claim is left; status tells of its start."""
    produce(flow, 300)
    driver = flow.start()
    eventually(lambda: _has_jvm(driver.process.pid), "a JVM that starts")
    assert _told(flow)[0] is DriverState.STARTING
    below = descendants(driver.process.pid)
    send(driver.process.pid, number)
    assert driver.wait() == code
    eventually(lambda: not any(is_running(pid) for pid in below), "its JVM has ended")
    assert "Traceback" not in flow.told()
    assert [line for line in flow.told().splitlines() if "error" in line.lower()] == [
        f"error: ended by {number.name} while Spark was starting; nothing was copied"
    ]
    assert flow.target_records() == 0
    assert flow.rows("writers") == 0
    assert _told(flow) == (DriverState.NEVER_RAN, True)


def _told(flow: FlowUnderTest) -> tuple[DriverState, bool]:
    """The state of the driver, and whether its last start came to nothing."""
    driver = Ledger.open(flow.config).status(FLOW).flows[0].driver
    return driver.state, driver.failed_start_at_ms is not None


def _has_jvm(pid: int) -> bool:
    return any("org.apache.spark" in command_of(below) for below in descendants(pid))
