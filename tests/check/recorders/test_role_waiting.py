"""A recorder and its role: it waits for it, gives it up, and outlives outages and plans."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ledger.errors import ClusterUnavailableError, ShutOutError
from ledger.facts.operations import FindingKey
from ledger.facts.roles import APPLY_WRITER, ProcessMark
from ledger.facts.state import FactLog
from ledger.kafka.cluster import TopicDescription
from ledger.recorders import run
from ledger.recorders.findings import PlanWatch
from ledger.recorders.recorder import ClusterRecorder
from ledger.recorders.run import BackgroundRecorders
from ledger.store.session import APPLY_TABLES, RECORDER_TABLES, WriterSession
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.support.fakes import (
    OWN_MARK,
    FakeClock,
    FakeCluster,
    FakeLedger,
    FakeProcesses,
    recorder_of,
    watched_cluster,
)
from tests.support.ledger_rows import claim_row
from tests.support.ledgers import claim_of
from tests.support.stepped_drivers import Driver, nothing
from tests.support.waiting import eventually

# -- The role --------------------------------------------------------------------------------------

OTHER = ProcessMark(OWN_MARK.host, 77, 5)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(run, "_TICK_S", 0.01)
    monkeypatch.setattr(run, "_ROLE_RETRY_S", 0.03)
    caplog.set_level(logging.INFO)


@contextmanager
def at_work(recorder: ClusterRecorder) -> Iterator[None]:
    with BackgroundRecorders([recorder]) as recorders:
        recorders.start()
        yield


def claim_by_other(ledger: FakeLedger) -> None:
    ledger.claim(
        "recorder:east", RECORDER_TABLES, {**claim_row(str(OTHER)), "source_cluster_id": "cluster-id"}
    )


def waits(recorder: ClusterRecorder) -> None:
    eventually(lambda: not recorder.holds_role, "it has no role", within_s=10)


def comes_to_wait(recorder: ClusterRecorder, ledger: FakeLedger) -> None:
    """Time passes meanwhile: a read that was under way before tells nothing of what changed since."""

    def has_none() -> bool:
        ledger.clock.now_s += 100
        return not recorder.holds_role

    eventually(has_none, "it has no role", within_s=10)


def records(recorder: ClusterRecorder) -> None:
    eventually(lambda: recorder.holds_role, "it has the role", within_s=10)


def test_a_role_that_another_process_has_is_waited_for_until_that_process_is_dead(
    ledger: FakeLedger, caplog: pytest.LogCaptureFixture
) -> None:
    claim_by_other(ledger)
    processes = FakeProcesses(alive={OTHER})
    recorder = recorder_of(watched_cluster(), ledger, processes)
    with at_work(recorder):
        eventually(lambda: "recorded by process 77" in caplog.text, "it says so", within_s=10)
        waits(recorder)
        processes.alive.clear()
        records(recorder)
    assert caplog.text.count("recorded by process 77 on host host-a already") == 1
    assert "the one that did has died" in caplog.text


def test_a_later_claim_is_given_way_to_and_its_end_waited_for(
    ledger: FakeLedger, caplog: pytest.LogCaptureFixture
) -> None:
    processes = FakeProcesses(alive={OTHER})
    recorder = recorder_of(watched_cluster(), ledger, processes)
    with at_work(recorder):
        records(recorder)
        claim_by_other(ledger)
        comes_to_wait(recorder, ledger)
        eventually(lambda: "recorded by process 77" in caplog.text, "it says so", within_s=10)
        assert not recorder.holds_role
        processes.alive.clear()
        records(recorder)
    assert "another process records the cluster from now on" in caplog.text


def test_while_another_cluster_answers_the_role_is_free_and_is_claimed_anew_afterwards(
    ledger: FakeLedger, caplog: pytest.LogCaptureFixture
) -> None:
    cluster: FakeCluster = watched_cluster()
    recorder = recorder_of(cluster, ledger)
    with at_work(recorder):
        records(recorder)
        cluster.kafka_id = "another"
        comes_to_wait(recorder, ledger)
        assert ledger.rows("writers")[-1]["event"] == "released"
        cluster.kafka_id = "cluster-id"
        records(recorder)
        assert [row["event"] for row in ledger.rows("writers")] == ["claimed", "released", "claimed"]
    assert caplog.text.count("another cluster answers behind east") == 1


# -- Outages ---------------------------------------------------------------------------------------

AWAY = ClusterUnavailableError("cluster east could not be reached: refused")


class AwayAtTimes(FakeCluster):
    is_away = False

    def topics(self) -> dict[str, TopicDescription]:
        if self.is_away:
            raise AWAY
        return super().topics()


@pytest.fixture
def at_times() -> AwayAtTimes:
    return AwayAtTimes()


def outage_events(ledger: FakeLedger) -> list[tuple[str, int, object, object]]:
    """Kind, round, flow and content of what was said about the cluster."""
    return [
        (row["kind"], row["round"], row["flow"], json.loads(row["content"]))
        for row in ledger.rows("operations")
    ]


def test_a_cluster_that_does_not_answer_is_recorded_until_it_does(
    at_times: AwayAtTimes, ledger: FakeLedger, clock: FakeClock
) -> None:
    recorder = recorder_of(at_times, ledger)
    recorder.take_role()
    at_times.is_away, began_ms = True, clock.now_ms()
    for expected in (0, 1, 1):
        with pytest.raises(ClusterUnavailableError):
            recorder.record_once()
        assert len(outage_events(ledger)) == expected
        clock.now_s += 1
    at_times.is_away = False
    recorder.record_once()
    recorder.record_once()
    raised, cleared = outage_events(ledger)
    assert raised[:3] == ("finding_raised", 1, None)
    content = raised[3]
    assert isinstance(content, dict)
    assert content["message"] == f"east does not answer: {AWAY}"
    assert (content["cluster"], content["since_ms"]) == ("east", began_ms)
    key = {"finding": "cluster_unreachable", "topic": None, "partition": None}
    assert cleared == ("finding_cleared", 2, None, key)
    assert recorder.holds_role


def test_a_later_epoch_clears_what_an_earlier_one_left(at_times: AwayAtTimes, clock: FakeClock) -> None:
    class Left(FakeLedger):
        def findings_of(self, writer: str) -> frozenset[FindingKey]:
            assert writer == "recorder:east"
            return frozenset({("cluster_unreachable", None, None)})

    ledger = Left(clock)
    recorder = recorder_of(at_times, ledger)
    recorder.take_role()
    assert outage_events(ledger) == []
    recorder.record_once()
    assert [event[0] for event in outage_events(ledger)] == ["finding_cleared"]


def test_a_recorder_that_was_shut_out_says_nothing_of_outages(
    at_times: AwayAtTimes, ledger: FakeLedger
) -> None:
    recorder = recorder_of(at_times, ledger)
    recorder.take_role()
    ledger.claim(recorder.writer, RECORDER_TABLES, claim_row("another-host:1:1"))
    at_times.is_away = True
    with pytest.raises(ClusterUnavailableError):
        recorder.record_once()
    with pytest.raises(ShutOutError):
        recorder.record_once()
    assert not recorder.holds_role


# -- Plans that are carried out --------------------------------------------------------------------


def begun(fact_log: FactLog) -> WriterSession:
    """Somebody carries out a plan."""
    return WriterSession.claimed(fact_log, APPLY_WRITER, APPLY_TABLES, claim_of("a flow"))


@pytest.mark.parametrize(("is_begun", "rounds_s"), [(False, [5.0]), (True, [1.0])])
def test_the_rounds_of_a_driver_are_short_while_somebody_waits_for_them(
    is_begun: bool, rounds_s: list[float]
) -> None:
    driver = Driver([nothing])
    if is_begun:
        begun(MemoryFactLog(driver.flow.ledger, driver.flow.clock))
    driver.run()
    assert driver.rounds_s == rounds_s


def test_a_recorder_reads_every_second_what_somebody_waits_for(ledger: FakeLedger, clock: FakeClock) -> None:
    cluster = watched_cluster()
    recorder = recorder_of(cluster, ledger)
    recorder.take_role()
    recorder.record_due()
    session = begun(ledger)
    clock.now_s += 5
    recorder.record_due()
    for committed in (4, 5):
        clock.now_s += 1
        cluster.committed["app", "orders", 0] = committed
        assert recorder.record_due().rows == {"checkpoints": 1}
    session.release()
    clock.now_s += 1
    recorder.record_due()
    clock.now_s += 1
    cluster.committed["app", "orders", 0] = 6
    assert recorder.record_due().rows == {}


def test_a_plan_that_was_left_in_the_middle_is_nobodys_work(ledger: FakeLedger, clock: FakeClock) -> None:
    """As far as this process sees: whoever it is may have any clock."""
    session = begun(ledger)
    watch = PlanWatch(lambda: ledger.last_claim(APPLY_WRITER), clock)
    paces = []
    for passed_s in (0, 10, 20, 1):
        clock.now_s += passed_s
        paces.append(watch.at_most(5.0))
    session.alive()
    clock.now_s += 5
    paces.append(watch.at_most(5.0))
    assert paces == [1.0, 1.0, 1.0, 5.0, 1.0]


def test_a_pace_that_is_quicker_stays_as_it_is(ledger: FakeLedger, clock: FakeClock) -> None:
    begun(ledger)
    assert PlanWatch(lambda: ledger.last_claim(APPLY_WRITER), clock).at_most(0.5) == 0.5
