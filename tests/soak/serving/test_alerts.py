"""A real Prometheus scrapes a real mirror: each alert fires within half a minute of what it is about."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.sandbox import Sandbox, SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.support.asked_pages import value
from tests.support.clusters import servers_of
from tests.support.commands import command
from tests.support.config_files import write_config
from tests.support.drivers import Driver
from tests.support.following import copied, name_of, produce
from tests.support.runs import FLOW
from tests.support.scraped import (
    FIRES_WITHIN_S,
    fires,
    firing,
    free_port,
    is_firing,
    prometheus,
    samples_at,
    serving,
)
from tests.support.waiting import eventually

LINES = (
    'topic_naming = "identity"\nround_seconds = 1\nheartbeat_seconds = 5\nhigh_watermark_seconds = 1\n'
    'checkpoint_seconds = 1\ntopic_refresh_seconds = 1\non_loss = "continue"'
)
OBJECTIVES = "\n[objectives]\nmax_lag_records = 20\n"

pytestmark = [
    pytest.mark.xdist_group("served"),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not on this machine"),
]


@dataclass(frozen=True)
class Watched:
    """A mirror of two topics at work, served, and scraped by `prometheus`."""

    config: MirrorConfig
    servers: Mapping[str, str]
    calm: str
    disturbed: str
    driver: Driver
    served: str
    prometheus: str
    capsys: pytest.CaptureFixture[str]

    def ask(self, *words: str) -> None:
        done = command(self.capsys, self.config, *words)
        assert done.code == 0, done.err

    def fires(self, alert: str, since_s: float, **labels: str) -> None:
        """Within half a minute of that moment."""
        fires(self.prometheus, alert, since_s, **labels)


@pytest.fixture
def watched(
    broker_pair: Mapping[str, SandboxCluster], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Watched]:
    """With what is written copied, and no alert firing."""
    servers, topics = servers_of(broker_pair), (name_of("calm"), name_of("disturbed"))
    create_topics(servers["east"], list(topics), partitions=1)
    for topic in topics:
        produce(servers["east"], topic, "0")
    config = write_config(tmp_path, servers, {FLOW: f'topics = ["{topics[0]}", "{topics[1]}"]\n{LINES}'})
    file = Path(config.file)
    file.write_text(file.read_text() + OBJECTIVES)
    init_ledger(config)
    own = f"127.0.0.1:{free_port()}"
    driver = Driver(config, tmp_path / "driver.log", ("--metrics", own))
    try:
        with (
            serving(config, tmp_path / "serve.log") as url,
            prometheus(tmp_path, own, url.removeprefix("http://")) as at,
        ):
            for topic in topics:
                eventually(lambda topic=topic: copied(servers["west"], topic) == [b"0"], "it is copied")  # type: ignore[misc]
            eventually(lambda: value(samples_at(url), "flow_lag_records") == 0, "it is recorded")
            eventually(lambda: firing(at) == [], "nothing is wrong")
            yield Watched(config, servers, *topics, driver, url, at, capsys)
    finally:
        driver.end()


def moment(act: Callable[[], object]) -> float:
    """When it had been done."""
    act()
    return time.monotonic()


def test_a_lag_a_loss_and_a_stop(watched: Watched) -> None:
    east, west = watched.servers["east"], watched.servers["west"]
    watched.ask("pause", FLOW, "--topic", watched.disturbed, "--reason", "to see a lag", "--wait", "60")
    since = moment(lambda: produce(east, watched.disturbed, *map(str, range(1, 41))))
    watched.fires("ObjectiveMissed", since, objective="max_lag_records", flow=FLOW)

    admin = AdminClient({"bootstrap.servers": east})
    [deleted] = admin.delete_records([TopicPartition(watched.disturbed, 0, 11)]).values()
    assert deleted.result(30).low_watermark == 11
    watched.ask("resume", FLOW, "--topic", watched.disturbed, "--reason", "to see a loss")
    since = time.monotonic()
    watched.fires("RecordsLost", since, flow=FLOW)
    eventually(lambda: not is_firing(watched.prometheus, "ObjectiveMissed"), "it has caught up")
    assert copied(west, watched.disturbed) == [b"0", *(str(number).encode() for number in range(11, 41))]

    produce(west, watched.calm, "foreign")
    since = moment(lambda: produce(east, watched.calm, "1"))
    watched.fires("PartitionStopped", since, flow=FLOW, cause="foreign_write")


def test_a_dead_driver(watched: Watched) -> None:
    since = moment(watched.driver.kill_with_workers)
    watched.fires("DriverDead", since)
    watched.fires("DriverSilent", since, flow=FLOW)


def test_a_ledger_that_cannot_be_written(watched: Watched) -> None:
    """Nobody finds its tables any more, as when a mount is lost."""
    ledger = Path(watched.config.ledger.path)
    since = moment(lambda: os.rename(ledger, ledger.with_name("lost")))
    produce(watched.servers["east"], watched.calm, "1")
    eventually(
        lambda: any(is_firing(watched.prometheus, one) for one in ("LedgerNotWritable", "DriverDead")),
        "the driver's own endpoint says so",
        within_s=FIRES_WITHIN_S,
    )
    watched.fires("LedgerNotReadable", since)
    os.rename(ledger.with_name("lost"), ledger)


def test_a_source_that_is_dead(watched: Watched, broker_pair_sandbox: Sandbox) -> None:
    since = moment(lambda: broker_pair_sandbox.kill("east"))
    try:
        watched.fires("ClusterUnreachable", since, side="source", flow=FLOW)
    finally:
        broker_pair_sandbox.up(["east", "west"], brokers=1, far=["east", "west"])
