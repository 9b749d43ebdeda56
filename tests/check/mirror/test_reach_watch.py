"""Clusters that do not answer: told within the promised time, and their findings raised and cleared."""

import json
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from ledger.clock import Instant, SystemClock
from ledger.config.values import ClusterConfig
from ledger.errors import ClusterUnavailableError, LedgerUnavailableError
from ledger.facts.findings import Findings, Side
from ledger.facts.identity import FlowProducer
from ledger.facts.state import WriterClaim
from ledger.facts.syncs import NOTHING_KNOWN, TopicPartition
from ledger.facts.tables import Row
from ledger.kafka.reach import KafkaReach
from ledger.mirror import watches
from ledger.mirror.assignment import Assignment, PartitionResult
from ledger.mirror.watches import REACH_FINDINGS, REPORTED_WITHIN_S, Partition, Prober, ReachWatch, Watched
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.commands import dead_port
from tests.support.copy_tasks import copied_up_to
from tests.support.fakes import FakeClock
from tests.support.ledgers import claimed
from tests.support.waiting import eventually

# -- Looked at over sockets ------------------------------------------------------------------------

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


# -- Findings --------------------------------------------------------------------------------------

SOURCE, TARGET = ("source_unreachable", None, None), ("target_unreachable", None, None)
ORDERS = ("source_unreachable", "orders", None)
NO_LEADER = "it has no leader"


class WatchedReach:
    """A driver that begins now; every step takes a second and ends with a look."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.ledger = ledger
        self.state = MemoryLedgerState(ledger)
        self.clock = FakeClock()
        operations = claimed(MemoryFactLog(ledger, self.clock), FLOW)
        findings = Findings(FLOW, REACH_FINDINGS, operations, self.state)
        self.watch = ReachWatch(findings, self.clock, {Side.SOURCE: "east", Side.TARGET: "west"})

    def answers(self, side: Side = Side.SOURCE) -> frozenset[object]:
        self.watch.answered(side)
        return self._told()

    def fails(
        self, side: Side = Side.SOURCE, reason: str = "refused", *, took_s: float = 0
    ) -> frozenset[object]:
        began = self.now()
        self.clock.now_s += took_s
        self.watch.failed(side, reason, began=began)
        return self._told()

    def unled(self, *partitions: Partition, reason: str = NO_LEADER) -> frozenset[object]:
        self.watch.unled(Side.SOURCE, dict.fromkeys(partitions, reason), began=self.now())
        return self._told()

    def now(self) -> Instant:
        return Instant(self.clock.now_ms(), self.clock.monotonic())

    def round(self, *results: PartitionResult, took_s: float = 1) -> frozenset[object]:
        began = self.now()
        self.clock.now_s += took_s
        self.watch.copied(results, began=began)
        return self._told()

    def _told(self) -> frozenset[object]:
        self.watch.record()
        self.clock.now_s += 1
        return self.state.open_findings(FLOW)

    def raised(self) -> list[dict[str, object]]:
        rows = self.ledger.rows("operations")
        return [json.loads(str(row["content"])) for row in rows if row["kind"] == "finding_raised"]


def test_a_second_failure_in_a_row_is_an_outage_since_the_first_had_failed() -> None:
    driver = WatchedReach(MemoryLedger())
    assert driver.answers() == frozenset()
    began_ms = driver.clock.now_ms()
    assert driver.fails(reason="timed out", took_s=2) == frozenset()
    assert driver.fails(reason="refused") == {SOURCE}
    assert driver.fails(reason="refused again") == {SOURCE}
    [content] = driver.raised()
    assert (content["message"], content["since_ms"]) == ("east does not answer: refused", began_ms + 2000)
    assert content["cluster"] == "east"
    assert driver.answers() == frozenset()


def test_one_failure_that_the_next_look_does_not_confirm_is_none() -> None:
    driver = WatchedReach(MemoryLedger())
    for _ in range(3):
        assert driver.fails() == frozenset()
        assert driver.answers() == frozenset()
    assert driver.raised() == []


def test_one_look_that_waited_for_long_is_enough() -> None:
    assert WatchedReach(MemoryLedger()).fails(took_s=4) == frozenset()
    assert WatchedReach(MemoryLedger()).fails(took_s=5) == {SOURCE}


def test_sides_are_told_apart() -> None:
    driver = WatchedReach(MemoryLedger())
    driver.fails(Side.SOURCE)
    assert driver.fails(Side.TARGET) == frozenset()
    assert driver.fails(Side.TARGET) == {TARGET}
    assert driver.fails(Side.SOURCE) == {SOURCE, TARGET}
    assert driver.answers(Side.TARGET) == {SOURCE}
    assert [content["cluster"] for content in driver.raised()] == ["west", "east"]


def test_partitions_without_a_leader_are_told_by_topic_once_that_has_lasted() -> None:
    driver = WatchedReach(MemoryLedger())
    driver.answers()
    began_ms = driver.clock.now_ms()
    for _ in range(7):
        assert driver.unled(("orders", 0)) == frozenset()
    assert driver.unled(("orders", 0), ("orders", 1)) == {ORDERS}
    [content] = driver.raised()
    assert content["since_ms"] == began_ms
    assert content["message"] == "east cannot be used for orders partition 0: it has no leader"
    assert driver.unled(("orders", 1)) == {ORDERS}, "0 is led again, 1 has only begun to be without"
    assert driver.unled(("invoices", 0)) == frozenset()


def test_a_leader_that_is_found_meanwhile_begins_anew() -> None:
    driver = WatchedReach(MemoryLedger())
    for _ in range(6):
        driver.unled(("orders", 0))
    driver.unled()
    for _ in range(7):
        assert driver.unled(("orders", 0)) == frozenset()
    assert driver.unled(("orders", 0)) == {ORDERS}


def test_leaders_stay_as_they_were_while_the_whole_cluster_is_away() -> None:
    driver = WatchedReach(MemoryLedger())
    for _ in range(8):
        driver.unled(("orders", 0))
    driver.fails()
    assert driver.fails() == {SOURCE, ORDERS}
    assert driver.answers() == {ORDERS}
    assert driver.unled() == frozenset()


def test_many_partitions_are_counted() -> None:
    driver = WatchedReach(MemoryLedger())
    for _ in range(8):
        driver.unled(*(("orders", number) for number in range(7)))
    assert "orders partition 0, 1, 2, 3, 4 and 2 more partitions: it" in str(driver.raised()[0]["message"])


def test_a_later_driver_clears_what_an_earlier_one_raised_once_it_knows_better() -> None:
    ledger = MemoryLedger()
    earlier = WatchedReach(ledger)
    earlier.fails()
    earlier.fails()
    for _ in range(8):
        earlier.unled(("orders", 0))
    later = WatchedReach(ledger)
    assert later.answers(Side.TARGET) == {SOURCE, ORDERS}, "nothing is known of the source so far"
    assert later.fails() == {SOURCE, ORDERS}, "one failure does not say that the source answers"
    assert later.answers() == {ORDERS}
    assert later.unled() == frozenset()
    assert len(later.raised()) == 2


def test_nothing_is_recorded_after_the_end() -> None:
    driver = WatchedReach(MemoryLedger())
    driver.watch.close()
    driver.fails()
    assert driver.fails() == frozenset()


def result_of(
    topic: str = "orders",
    *,
    trouble: tuple[Side, str] | None = None,
    throttled: tuple[Side, int] | None = None,
) -> PartitionResult:
    source, target = TopicPartition(topic, "id", 0), TopicPartition(f"east.{topic}", "id", 0)
    assignment = Assignment(
        source=source,
        target=target,
        position=copied_up_to(0),
        producer=FlowProducer(7),
        end_offset=None,
        exclusive=True,
    )
    return PartitionResult(
        assignment=assignment,
        syncs=(),
        position=copied_up_to(0),
        tail=NOTHING_KNOWN,
        stop=None,
        trouble=None,
        unreached=() if trouble is None else (trouble,),
        throttled_ms=() if throttled is None else (throttled,),
    )


COPIED_ORDERS = ("target_unreachable", "east.orders", None)
REFUSES = (Side.TARGET, "the target answered with NOT_ENOUGH_REPLICAS")


def test_partitions_that_rounds_cannot_use_are_told_once_that_has_lasted() -> None:
    driver = WatchedReach(MemoryLedger())
    driver.answers(Side.TARGET)
    driver.watch.unled(Side.TARGET, {}, began=driver.now())
    assert driver.round(result_of(trouble=REFUSES), took_s=7) == frozenset(), "the first round"
    assert driver.round(result_of(trouble=REFUSES), took_s=0) == {COPIED_ORDERS}
    assert driver.raised()[0]["message"] == (
        "west cannot be used for east.orders partition 0: the target answered with NOT_ENOUGH_REPLICAS"
    )
    assert driver.round(result_of(trouble=(Side.SOURCE, "slow"))) == frozenset()


def test_rounds_say_nothing_of_partitions_while_the_whole_cluster_is_away() -> None:
    driver = WatchedReach(MemoryLedger())
    driver.watch.unled(Side.TARGET, {}, began=driver.now())
    driver.fails(Side.TARGET)
    for _ in range(9):
        assert COPIED_ORDERS not in driver.round(result_of(trouble=REFUSES))


def test_quotas_are_told_until_they_have_not_been_felt_for_a_while() -> None:
    driver = WatchedReach(MemoryLedger())
    began_ms = driver.clock.now_ms()
    assert driver.round(result_of(throttled=(Side.TARGET, 99))) == frozenset()
    began_ms = driver.clock.now_ms()
    told = driver.round(result_of(), result_of(throttled=(Side.TARGET, 850)))
    assert told == {("target_throttled", None, None)}
    assert driver.raised()[0]["since_ms"] == began_ms
    assert "held answers back for up to 850 ms" in str(driver.raised()[0]["message"])
    assert driver.round(result_of(), took_s=13) == told
    assert driver.round(result_of()) == frozenset()


def test_nobody_is_held_back_once_the_run_is_over() -> None:
    ledger = MemoryLedger()
    driver = WatchedReach(ledger)
    driver.round(result_of(throttled=(Side.SOURCE, 850)))
    later = WatchedReach(ledger)
    assert later.answers() == {("source_throttled", None, None)}, "nothing was copied so far"
    later.watch.ended()
    assert later.round(result_of()) == frozenset()
    again = WatchedReach(ledger)
    assert again.round(result_of(throttled=(Side.SOURCE, 850))) == {("source_throttled", None, None)}
    again.watch.ended()
    assert again.state.open_findings(FLOW) == frozenset()
