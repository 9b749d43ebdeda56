"""A recorder that runs by itself: an outage of its cluster ends one look that was asked for, and nothing else."""

from collections.abc import Callable

import pytest

from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.recording.alone import record_once, record_until
from ledger.recording.observation import RecorderSettings
from ledger.recording.recorder import ClusterRecorder, RecordedRound
from tests.support.fakes import FakeClock, FakeCluster, FakeLedger, FakeProcesses

AWAY = ClusterUnavailableError("east does not answer")
SETTINGS = RecorderSettings(
    groups=(), checkpoint_seconds=1, high_watermark_seconds=1, topic_refresh_seconds=1, full_sweep_seconds=1
)
FOUND = RecordedRound(1, {"checkpoints": 2})


class Counted:
    """Implements the stop signal: set after so many looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.left -= 1
        return self.left == 0


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ClusterRecorder]:
    """A recorder whose looks come out one after another as given."""

    def made(*outcomes: Exception | RecordedRound) -> ClusterRecorder:
        left = iter(outcomes)

        def look(_self: ClusterRecorder) -> RecordedRound:
            outcome = next(left)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(ClusterRecorder, "record_once", look)
        monkeypatch.setattr(ClusterRecorder, "record_due", look)
        ledger = FakeLedger(FakeClock())
        return ClusterRecorder(
            FakeCluster(),
            ledger,
            ledger,
            ledger.clock,
            SETTINGS,
            partitions=list,
            processes=FakeProcesses(),
        )

    return made


def test_an_outage_is_outlived_and_told_once(
    scripted: Callable[..., ClusterRecorder], caplog: pytest.LogCaptureFixture
) -> None:
    recorder = scripted(AWAY, AWAY, FOUND, FOUND, AWAY, FOUND)
    assert record_until(Counted(6), recorder) == {"checkpoints": 6}
    assert caplog.text.count("nothing is recorded for now: east does not answer") == 2
    assert caplog.text.count("recording again") == 2


def test_what_is_no_outage_ends_it(scripted: Callable[..., ClusterRecorder]) -> None:
    with pytest.raises(PreconditionError, match="another cluster"):
        record_until(Counted(9), scripted(FOUND, PreconditionError("another cluster answers")))


def test_one_look_is_tried_twice(scripted: Callable[..., ClusterRecorder]) -> None:
    assert record_once(scripted(AWAY, FOUND), Counted(9)) == {"checkpoints": 2}
    with pytest.raises(ClusterUnavailableError) as told:
        record_once(scripted(AWAY, AWAY), Counted(9))
    assert told.value.exit_code == 1
