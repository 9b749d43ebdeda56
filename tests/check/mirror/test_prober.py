"""Clusters that refuse or hang, looked at over sockets: told within the promised time while nothing else goes on."""

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from ledger.clock import Instant, SystemClock
from ledger.config.values import ClusterConfig
from ledger.errors import ClusterUnavailableError, LedgerUnavailableError
from ledger.facts.findings import Findings, Side
from ledger.facts.state import WriterClaim
from ledger.facts.tables import Row
from ledger.kafka.reach import KafkaReach
from ledger.mirror import watches
from ledger.mirror.watches import REACH_FINDINGS, REPORTED_WITHIN_S, Prober, ReachWatch, Watched
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.commands import dead_port
from tests.support.ledgers import claimed
from tests.support.waiting import eventually

FLOW = "f"
PARTITIONS = [("orders", 0), ("orders", 1)]


@contextmanager
def hanging() -> Iterator[int]:
    """A port that accepts connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def cluster(*ports: int) -> ClusterConfig:
    return ClusterConfig(name="east", bootstrap_servers=",".join(f"127.0.0.1:{port}" for port in ports))


def test_a_port_that_refuses_is_told_with_its_address() -> None:
    port = dead_port()
    probe = KafkaReach(cluster(port))
    with pytest.raises(ClusterUnavailableError, match=rf"127.0.0.1:{port} cannot be connected: .*refused"):
        probe.leaderless(PARTITIONS)
    probe.close()


def test_brokers_that_hang_are_asked_at_once_and_given_up_within_seconds() -> None:
    with hanging() as one, hanging() as other:
        probe = KafkaReach(cluster(one, other, dead_port()))
        began = time.monotonic()
        with pytest.raises(ClusterUnavailableError, match=r"did not answer.*timed out"):
            probe.leaderless(PARTITIONS)
        assert time.monotonic() - began < REPORTED_WITHIN_S / 2
        probe.close()


class Scripted:
    """Implements `ReachProbe`."""

    answer: dict[tuple[str, int], str] | Exception
    is_closed = False

    def __init__(self) -> None:
        self.answer = {}
        self.asked: list[int] = []

    def leaderless(self, partitions: object) -> dict[tuple[str, int], str]:
        self.asked.append(len(partitions))  # type: ignore[arg-type]
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.is_closed = True


class Driver:
    """One that does nothing but look out."""

    def __init__(self, fact_log: type[MemoryFactLog] = MemoryFactLog) -> None:
        self.ledger = MemoryLedger()
        self.state = MemoryLedgerState(self.ledger)
        self.clock = SystemClock()
        operations = claimed(fact_log(self.ledger, self.clock), FLOW)
        findings = Findings(FLOW, REACH_FINDINGS, operations, self.state)
        self.watch = ReachWatch(findings, self.clock, {Side.SOURCE: "east", Side.TARGET: "west"})

    def watching(self, source: Scripted, target: Scripted) -> Prober:
        watched = {Side.SOURCE: Watched(source, lambda: PARTITIONS), Side.TARGET: Watched(target, list)}
        return Prober(self.watch, watched, self.clock)

    def told(self) -> set[str]:
        return {name for name, _, _ in self.state.open_findings(FLOW)}


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "_EVERY_S", 0.02)
    monkeypatch.setattr(watches, "_AFTER_A_FAILURE_S", 0.02)


def test_an_outage_is_recorded_and_cleared_while_the_driver_does_nothing() -> None:
    driver, source, target = Driver(), Scripted(), Scripted()
    with driver.watching(source, target):
        eventually(lambda: 2 in source.asked, "leaders are looked at", within_s=10)
        source.answer = ClusterUnavailableError("refused")
        eventually(lambda: driver.told() == {"source_unreachable"}, "it is told", within_s=10)
        source.answer = {}
        eventually(lambda: driver.told() == set(), "it is over", within_s=10)
        target.answer = ClusterUnavailableError("refused")
        eventually(lambda: driver.told() == {"target_unreachable"}, "the other side", within_s=10)
    eventually(lambda: source.is_closed and target.is_closed, "the connections are closed", within_s=10)
    rows = len(driver.ledger.rows("operations"))
    driver.watch.record()
    assert len(driver.ledger.rows("operations")) == rows


class Full(MemoryFactLog):
    """A ledger that takes nothing until the fourth attempt."""

    attempts = 0

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        self.attempts += 1
        if self.attempts < 4:
            raise LedgerUnavailableError("no space left on device; nothing was appended")
        super().append(claim, table, round_number, rows)


def test_a_ledger_that_does_not_take_it_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    driver, source = Driver(Full), Scripted()
    source.answer = ClusterUnavailableError("refused")
    with driver.watching(source, Scripted()):
        eventually(lambda: driver.told() == {"source_unreachable"}, "it is told", within_s=10)
    assert caplog.text.count("no space left on device") == 1


def test_a_look_that_leaves_the_telling_to_another_thread_is_no_success(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As the rounds of the driver record, too: what fails all the time is logged once."""
    driver = Driver(Full)
    watching = driver.watching(Scripted(), Scripted())
    for _ in range(3):
        driver.watch.failed(Side.SOURCE, "refused", began=Instant(0, 0.0))
    watching._record()
    with driver.watch._recording:
        watching._record()
    watching._record()
    assert caplog.text.count("no space left on device") == 1
