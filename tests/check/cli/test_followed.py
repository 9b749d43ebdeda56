"""Who follows an apply: a line when what is waited for is another thing, and one every 30 seconds."""

import io
from types import SimpleNamespace

import pytest

from ledger.changeover.plans import StepName
from ledger.cli.changeover import followed
from ledger.cli.changeover.followed import Followed
from ledger.terminal import StatusLine

TYPED = "no driver is at work: mirror-ledger run back"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_wait_says_from_its_first_second_what_it_waits_for_and_again_every_30_seconds(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(followed, "time", SimpleNamespace(monotonic=lambda: now_s))
    shown = Followed(StatusLine(io.StringIO(), is_terminal=is_terminal)).reports
    shown.begins(StepName.CATCH_UP)
    for second in range(75):
        now_s = 1_000.0 + second
        shown.waits(StepName.CATCH_UP, f"{75_000 - 1_000 * second:,} offsets to come; {TYPED}")
    now_s = 1_075.5
    shown.waits(StepName.CATCH_UP, "300 offsets to come; back copies")
    now_s = 1_076.0
    shown.waits(StepName.CATCH_UP, "200 offsets to come; back copies")
    shown.ends(StepName.CATCH_UP, "all is there", True)
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().err.splitlines()]
    said = [" ".join(line) for line in lines]
    assert [one.partition("catch_up: ")[2] for one in said] == [
        f"75,000 offsets to come; {TYPED}",
        f"45,000 offsets to come; {TYPED}",
        f"15,000 offsets to come; {TYPED}",
        "300 offsets to come; back copies",
        "all is there",
    ]


def test_what_comes_before_the_first_step_is_said_too(capsys: pytest.CaptureFixture[str]) -> None:
    """An error may end it there: nothing is left drawn over that."""
    drawn = io.StringIO()
    Followed(StatusLine(drawn, is_terminal=True)).reports.waits(StepName.CHECK, "silence is watched")
    assert "check: silence is watched" in capsys.readouterr().err
    assert drawn.getvalue() == ""
