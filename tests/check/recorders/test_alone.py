"""Recorders without a driver: what ends a read that was asked for ends nothing that runs until asked to stop."""

from collections.abc import Callable

import pytest

from ledger.errors import ClusterUnavailableError
from ledger.recorders import run
from ledger.recorders.observation import RecorderSettings
from ledger.recorders.recorder import ClusterRecorder, RecordedRound
from ledger.recorders.run import record_once, record_until
from tests.support.fakes import FakeClock, FakeCluster, FakeLedger, FakeProcesses

AWAY = ClusterUnavailableError("east does not answer")
SETTINGS = RecorderSettings(
    groups=(),
    checkpoint_seconds=0.1,
    high_watermark_seconds=0.1,
    topic_refresh_seconds=0.1,
    full_sweep_seconds=0.1,
)
FOUND = RecordedRound(1, {"checkpoints": 2})


class OnceAllWasSeen:
    """Implements the stop signal."""

    def __init__(self, is_done: Callable[[], bool]) -> None:
        self.is_done = is_done

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        return self.is_done()


class Scripted(ClusterRecorder):
    """A recorder whose looks come out one after another as given; then there is nothing new."""

    def __init__(self, *outcomes: Exception | RecordedRound) -> None:
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
        self.left = list(outcomes)

    def record_once(self) -> RecordedRound:
        outcome = self.left.pop(0) if self.left else RecordedRound(None)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    record_due = record_last = record_once


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_TICK_S", 0.01)
    monkeypatch.setattr(run, "_RETRY_S", (0.02, 0.05))


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
