"""Recorders beside a flow and alone: what one fails with is told, and tried again; what ends a read ends no other."""

import logging
import time
from collections.abc import Callable

import pytest

from ledger.errors import (
    ClusterUnavailableError,
    LedgerUnavailableError,
    MirrorLedgerError,
    PreconditionError,
    ShutOutError,
)
from ledger.facts.roles import RoleVerdict
from ledger.facts.state import WriterClaim
from ledger.recorders import run
from ledger.recorders.observation import RecorderSettings
from ledger.recorders.recorder import ClusterRecorder, RecordedRound
from ledger.recorders.run import BackgroundRecorders, record_once, record_until
from tests.support.fakes import FakeClock, FakeCluster, FakeLedger, FakeProcesses
from tests.support.waiting import eventually

# -- Beside a flow ---------------------------------------------------------------------------------

SETTINGS = RecorderSettings(
    groups=(),
    checkpoint_seconds=0.1,
    high_watermark_seconds=0.1,
    topic_refresh_seconds=0.1,
    full_sweep_seconds=0.1,
)
STORE_IS_SLOW = MirrorLedgerError("round 3 could not be appended to high_watermarks: the store timed out")


class Alone(ClusterRecorder):
    """A recorder of a cluster and a ledger that nobody else has."""

    def __init__(self) -> None:
        ledger = FakeLedger(FakeClock())
        super().__init__(
            FakeCluster(),
            ledger,
            ledger,
            ledger.clock,
            SETTINGS,
            partitions=list,
            processes=FakeProcesses(),
        )


class Failing(Alone):
    """A recorder whose third look fails, and every one after it until `is_mended`."""

    looks = 0
    is_mended = False

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure
        self.last: Exception | None = None

    def record_last(self):  # type: ignore[no-untyped-def]
        if self.last is not None:
            raise self.last
        return super().record_last()

    def record_due(self):  # type: ignore[no-untyped-def]
        self.looks += 1
        if self.looks >= 3 and not self.is_mended:
            raise self.failure
        return super().record_due()


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_TICK_S", 0.01)
    monkeypatch.setattr(run, "AGAIN_S", (0.02, 0.05))


def has_looked(recorder: Failing, times: int) -> Callable[[], bool]:
    return lambda: recorder.looks >= times


@pytest.mark.parametrize("failure", [STORE_IS_SLOW, OSError("connection reset")], ids=["append", "os"])
def test_a_recorder_that_fails_is_tried_again_and_its_trouble_is_told(failure: Exception) -> None:
    recorder = Failing(failure)
    recorders = BackgroundRecorders([recorder])
    with recorders:
        recorders.start()
        eventually(has_looked(recorder, 5), "five looks", within_s=10)
        assert recorders.troubles == {recorder.writer: str(failure)}
        recorder.is_mended = True
        eventually(lambda: not recorders.troubles, "it records again", within_s=10)
        looks = recorder.looks
        eventually(has_looked(recorder, looks + 2), "it goes on", within_s=10)


def test_a_cluster_that_is_away_is_not_a_trouble_of_the_ledger() -> None:
    recorder = Failing(PreconditionError("not allowed"))
    recorders = BackgroundRecorders([recorder])
    with recorders:
        recorders.start()
        eventually(has_looked(recorder, 5), "five looks", within_s=10)
        assert recorders.troubles == {}


def test_two_that_begin_at_one_moment_leave_the_role_to_the_later_one_quietly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    recorder = Failing(ShutOutError("epoch 1 of recorder:east was shut out by epoch 2"))
    recorders = BackgroundRecorders([recorder])
    with recorders:
        recorders.start()
        eventually(has_looked(recorder, 3), "it is shut out", within_s=10)
        eventually(lambda: "another process records" in caplog.text, "it is told", within_s=10)
        assert recorders.troubles == {}
        recorder.is_mended = True
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == []


def test_a_claim_that_another_one_won_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    recorder = Failing(STORE_IS_SLOW)
    asked: list[str] = []

    def lose(*_arguments: object, **_options: object) -> WriterClaim:
        asked.append("claim")
        raise ShutOutError("epoch 1 of recorder:east was claimed at the same moment by another")

    monkeypatch.setattr(FakeLedger, "claim", lose)
    recorders = BackgroundRecorders([recorder])
    with recorders:
        recorders.start()
        eventually(lambda: bool(asked), "it asks for the role", within_s=10)
    assert (recorders.troubles, recorder.holds_role, caplog.text) == ({}, False, "")


def test_what_nobody_foresaw_is_told_and_ends_the_flow_with_it() -> None:
    recorder = Failing(ZeroDivisionError("a defect"))
    recorders = BackgroundRecorders([recorder])
    recorders.__enter__().start()
    eventually(lambda: bool(recorders.troubles), "the trouble is told", within_s=10)
    assert "a defect" in recorders.troubles[recorder.writer]
    with pytest.raises(ZeroDivisionError):
        recorders.__exit__(None, None, None)


def test_a_ledger_that_is_gone_is_not_asked_to_take_the_end_of_a_role() -> None:
    recorder = Failing(STORE_IS_SLOW)
    recorders = BackgroundRecorders([recorder])
    recorders.__enter__().start()
    eventually(has_looked(recorder, 1), "a look", within_s=10)
    error = LedgerUnavailableError("no space left on device")
    recorders.__exit__(type(error), error, None)
    assert recorder.holds_role


def test_a_role_is_given_back_although_the_cluster_does_not_answer_any_more() -> None:
    recorder = Failing(STORE_IS_SLOW)
    recorder.last = ClusterUnavailableError("refused")
    with BackgroundRecorders([recorder]) as recorders:
        recorders.start()
        eventually(has_looked(recorder, 1), "a look", within_s=10)
        assert recorder.holds_role
    assert not recorder.holds_role


def test_of_flows_that_begin_at_one_moment_one_takes_the_role() -> None:
    """Each of them would see it free, and the last one would shut the others out."""
    at_it, seen = [0], list[int]()

    class Slow(Alone):
        def take_role(self) -> RoleVerdict:
            at_it[0] += 1
            seen.append(at_it[0])
            time.sleep(0.02)
            verdict = super().take_role()
            at_it[0] -= 1
            return verdict

    flows = [BackgroundRecorders([Slow()]) for _ in range(3)]
    with flows[0], flows[1], flows[2]:
        for flow in flows:
            flow.start()
        eventually(lambda: len(seen) == 3, "each has asked")
    assert seen == [1, 1, 1]


# -- Alone -----------------------------------------------------------------------------------------

AWAY = ClusterUnavailableError("east does not answer")
FOUND = RecordedRound(1, {"checkpoints": 2})


class OnceAllWasSeen:
    """Implements the stop signal."""

    def __init__(self, is_done: Callable[[], bool]) -> None:
        self.is_done = is_done

    def is_set(self) -> bool:
        return self.is_done()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        return self.is_done()


class Scripted(Alone):
    """A recorder whose looks come out one after another as given; then there is nothing new."""

    def __init__(self, *outcomes: Exception | RecordedRound) -> None:
        super().__init__()
        self.left = list(outcomes)

    def record_once(self) -> RecordedRound:
        outcome = self.left.pop(0) if self.left else RecordedRound(None)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    record_due = record_last = record_once


def test_an_outage_is_outlived_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    recorder = Scripted(AWAY, AWAY, FOUND, FOUND, AWAY, FOUND)
    stop = OnceAllWasSeen(lambda: not recorder.left)
    assert record_until(stop, [recorder]) == {"recorder:east": {"checkpoints": 6}}
    assert caplog.text.count("nothing is recorded for now: east does not answer") == 2
    assert caplog.text.count("recording again") == 2
    assert not recorder.holds_role


def test_a_defect_of_one_is_not_left_behind_by_a_process_that_waits_to_be_stopped() -> None:
    recorder = Scripted(FOUND, ZeroDivisionError("a defect"))
    with pytest.raises(ZeroDivisionError):
        record_until(OnceAllWasSeen(lambda: False), [recorder])


def test_one_look_is_tried_twice() -> None:
    never = OnceAllWasSeen(lambda: False)
    assert record_once(Scripted(AWAY, FOUND), never) == {"checkpoints": 2}
    with pytest.raises(ClusterUnavailableError) as told:
        record_once(Scripted(AWAY, AWAY), never)
    assert told.value.exit_code == 1
