"""People are asked in the middle of an apply: for as long as nobody answers its process shows that it is alive."""

import io
import threading
from collections.abc import Callable

import pytest

from ledger.changeover.plans import StepName
from ledger.cli.changeover import followed
from ledger.cli.changeover.followed import Followed
from ledger.errors import PreconditionError, ShutOutError
from ledger.facts.changeovers import PlanRecorded
from ledger.terminal import StatusLine
from tests.support.changeovers import plan, with_hooks
from tests.support.operated import Operated


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "_SHOWN_ALIVE_EVERY_S", 0.001)


def answering(answer: bool, *, behind: threading.Event) -> Callable[[str], bool]:
    """A person who answers once that has happened."""

    def confirmed(_question: str) -> bool:
        assert behind.wait(30)
        return answer

    return confirmed


def begun() -> Followed:
    shown = Followed(StatusLine(io.StringIO()))
    shown.reports.begins(StepName.STOP_PRODUCERS)
    return shown


@pytest.mark.parametrize("answer", [True, False])
def test_a_process_that_asks_shows_that_it_is_alive(answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shown_alive, words = threading.Event(), []

    def waits(said: str) -> None:
        words.append(said)
        if len(words) > 2:
            shown_alive.set()

    monkeypatch.setattr(followed, "confirmed", answering(answer, behind=shown_alive))
    shown = begun()
    if answer:
        assert shown.ask("producers are stopped", waits) == "confirmed by the operator"
    else:
        with pytest.raises(PreconditionError, match="not confirmed: producers are stopped"):
            shown.ask("producers are stopped", waits)
    seen = len(words)
    threading.Event().wait(0.05)
    assert (len(words), set(words)) == (seen, {"a person is asked whether producers are stopped"}), (
        "nothing is said once it is answered"
    )


def test_a_person_learns_at_once_that_another_process_took_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = threading.Event()

    def waits(_said: str) -> None:
        reports.set()
        raise ShutOutError("another process carries out the plan")

    monkeypatch.setattr(followed, "confirmed", answering(True, behind=reports))
    begun().ask("producers are stopped", waits)
    assert capsys.readouterr().err.count("another process carries out the plan") == 1


def test_hooks_are_shown_before_anybody_is_asked(idle: Operated) -> None:
    made = with_hooks(plan(), stop_producers="systemctl stop orders", start_applications="x[/y]\x1b[2J")
    content = PlanRecorded(plan_id=made.plan_id, plan=made.content(), blockers=(), cut="c", forecast={})
    idle.operation("plan", content.content())
    done = idle.command("apply", made.plan_id, "--reason", "a drill")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        "at stop_producers this is run here, as you: systemctl stop orders",
        "at start_applications this is run here, as you: x[/y]\\x1b[2J",
        "error: there is nobody to ask: --yes carries the plan out without questions; nothing was done",
    ]
