"""A recorder that waits for its role, gives it up to a later claim, and gives it back to another cluster's."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ledger.facts.roles import ProcessMark
from ledger.recorders import run
from ledger.recorders.recorder import ClusterRecorder
from ledger.recorders.run import BackgroundRecorders
from ledger.store.session import RECORDER_TABLES
from tests.support.fakes import OWN_MARK, FakeCluster, FakeLedger, FakeProcesses, recorder_of, watched_cluster
from tests.support.ledger_rows import claim_row
from tests.support.waiting import eventually

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
