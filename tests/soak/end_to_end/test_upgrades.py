"""Another release of the program takes a flow over while it runs, and gives it back: each from a wheel of its own."""

import signal
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
from confluent_kafka import Producer
from hatchling.build import build_wheel

from ledger.config.mirror import MirrorConfig
from ledger.sandbox.workload import create_topics
from tests.support.checkout import CHECKOUT
from tests.support.drivers import Driver
from tests.support.following import copied, name_of
from tests.support.recorded import broken_invariants, rows
from tests.support.runs import FLOW
from tests.support.site import RealSite
from tests.support.waiting import eventually

FORMER = "35c75631"
"""A commit before drivers could be asked to read their configuration again, and before logs were JSON."""


def unpacked(source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as its wheel installs it."""
    monkeypatch.chdir(source)
    folder.mkdir()
    package = folder / "package"
    with zipfile.ZipFile(folder / build_wheel(str(folder))) as wheel:
        wheel.extractall(package)
    return package


def former_source(folder: Path) -> Path:
    archived = subprocess.run(
        [
            "git",
            "-C",
            str(CHECKOUT),
            "archive",
            FORMER,
            "pyproject.toml",
            "README.md",
            "LICENSE",
            "ledger",
            "queries",
        ],
        capture_output=True,
        check=False,
    )
    if archived.returncode:
        pytest.skip(f"this checkout has no commit {FORMER}: {archived.stderr.decode()}")
    with tarfile.open(fileobj=BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@contextmanager
def writing(servers: str, topic: str) -> Iterator[list[bytes]]:
    """A producer beside the body; what was acknowledged."""
    acknowledged: list[bytes] = []
    ended = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        number = 0
        while not ended.wait(0.005):
            value = f"{number}".encode()
            producer.produce(topic, value)
            assert producer.flush(30) == 0
            acknowledged.append(value)
            number += 1

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield acknowledged
    finally:
        ended.set()
        thread.join()


def waits(log: Path) -> bool:
    return "waits as standby" in log.read_text()


def is_claimed(config: MirrorConfig, epoch: int) -> bool:
    claimed = [row for row in rows(config, "writers") if row["event"] == "claimed" and row["flow"] == FLOW]
    return max(int(row["writer_epoch"]) for row in claimed) == epoch


def has(servers: str, topic: str, count: int) -> bool:
    return len(copied(servers, topic)) >= count


def test_a_release_takes_over_from_another_and_back_again(
    site: RealSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    east, west = site.servers
    topic = name_of("orders")
    create_topics(east, [topic], partitions=1)
    config = site.configured({FLOW: f'topics = ["{topic}"]\ntopic_naming = "identity"'})
    now = unpacked(CHECKOUT, site.folder / "now", monkeypatch)
    former = unpacked(former_source(site.folder / "source"), site.folder / "former", monkeypatch)
    monkeypatch.chdir(site.folder)
    drivers: list[Driver] = []

    def started(package: Path, *options: str) -> Driver:
        drivers.append(Driver(config, site.folder / f"log-{len(drivers)}", options, package=package))
        return drivers[-1]

    try:
        with writing(east, topic) as acknowledged:
            at_work = started(former)
            eventually(lambda: len(copied(west, topic)) > 100, "the former release copies")
            for number, package in enumerate((now, former), start=2):
                standby = started(package, "--standby")
                eventually(partial(waits, site.folder / f"log-{len(drivers) - 1}"), "the standby waits")
                assert at_work.ask_to_stop(signal.SIGTERM) == 0
                eventually(partial(is_claimed, config, number), "it is taken over")
                eventually(partial(has, west, topic, len(copied(west, topic)) + 100), "and copied")
                at_work = standby
        eventually(lambda: len(copied(west, topic)) == len(acknowledged), "all of it is copied")
        assert copied(west, topic) == acknowledged
        assert at_work.ask_to_stop(signal.SIGTERM) == 0
    finally:
        for driver in drivers:
            driver.end()
    assert broken_invariants(config) == {}
