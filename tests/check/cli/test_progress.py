"""When a run without a terminal says how far it is."""

from dataclasses import dataclass, field

import pytest

from ledger.cli.processes.progress import EVERY_S, QUIET_EVERY_S, ProgressLines, shown_progress
from ledger.mirror.progress import Lag, RunProgress, RunSummary
from ledger.terminal import StatusLine


@dataclass
class StepReports:
    """A run that tells its progress; the clock stands where the test puts it."""

    at: float = 100.0
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tell = ProgressLines("f", self, self.lines.append)

    def now_ms(self) -> int:
        return int(self.at * 1000)

    def monotonic(self) -> float:
        return self.at

    def after(self, seconds: float, records: int) -> int:
        """So many seconds later so many records are copied; returns how many lines there are."""
        self.at += seconds
        summary = RunSummary(records=records, bytes=records * 100)
        self._tell(RunProgress(summary, Lag(), stopped=0, paused=0, stale_after_s=15))
        return len(self.lines)


def test_the_first_records_are_told_and_then_every_so_often() -> None:
    run = StepReports()
    assert run.after(1, 0) == 0
    assert run.after(1, 500) == 1
    assert run.after(EVERY_S - 1, 900) == 1
    assert run.after(1, 2_000) == 2
    assert run.lines[0] == "f: 500 records, 0.1 MB copied; no partition is being copied"
    assert f"; 50 records/s, 0.0 MB/s in the last {EVERY_S:.0f} s; " in run.lines[1]


def test_a_run_that_copies_nothing_says_so_and_then_seldom() -> None:
    run = StepReports()
    assert run.after(EVERY_S - 1, 0) == 0
    assert run.after(1, 0) == 1
    assert run.after(QUIET_EVERY_S - 1, 0) == 1
    assert run.after(1, 0) == 2
    assert run.after(1, 10) == 2
    assert run.after(EVERY_S, 10) == 3


def test_without_a_terminal_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress(RunSummary(records=1), Lag(), stopped=0, paused=0, stale_after_s=15)
    with shown_progress("f", StatusLine(is_terminal=False)) as tell:
        tell(progress)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "f: 1 record, 0.0 MB copied; no partition is being copied\n")
    with shown_progress("f", StatusLine(is_terminal=True)) as tell:
        tell(progress)
        tell(progress)
    assert "f: 1 record, 0.0 MB copied" in capsys.readouterr().err
