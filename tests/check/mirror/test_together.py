"""Several flows in one process: none ends another, what passes is tried again, and the last word says who ended why."""

import threading
from collections.abc import Callable

import pytest

from ledger.errors import (
    ClusterUnavailableError,
    MirrorLedgerError,
    PreconditionError,
    ShutOutError,
    UnsafeError,
)
from ledger.mirror.progress import RunEnd, RunSummary
from ledger.mirror.together import FlowEnd, require_all_ended_well, run_together

CAUGHT_UP = RunSummary(end=RunEnd.CAUGHT_UP)
STOPPED = RunSummary(end=RunEnd.NOT_CAUGHT_UP, blocked={"orders": "its name is taken"})


def ended(*runs: Callable[[bool], RunSummary | None], tries_again: bool = True) -> list[FlowEnd]:
    """Of flows `a`, `b` and so on; what they do gets whether it is done again."""
    flows = dict(zip("abc", runs, strict=False))
    return run_together(
        list(flows),
        lambda flow, is_again: flows[flow](is_again),
        stop=threading.Event(),
        are_tried_again=tries_again,
        on_end=lambda _end: None,
        again_s=0.001,
    )


def failing(error: BaseException) -> Callable[[bool], RunSummary | None]:
    def fail(_is_again: bool) -> RunSummary | None:
        raise error

    return fail


def test_a_flow_that_fails_ends_no_other() -> None:
    failed = threading.Event()

    def fail(_is_again: bool) -> RunSummary | None:
        failed.set()
        raise ShutOutError("b was claimed by another process")

    def run_on(_is_again: bool) -> RunSummary | None:
        assert failed.wait(5.0)
        return CAUGHT_UP

    first, second = ended(run_on, fail)
    assert (first.summary, first.error) == (CAUGHT_UP, None)
    assert isinstance(second.error, ShutOutError)


def test_what_passes_is_tried_again_until_it_has_passed() -> None:
    asked: list[bool] = []

    def fail_twice(is_again: bool) -> RunSummary | None:
        asked.append(is_again)
        if len(asked) < 3:
            raise ClusterUnavailableError("east does not answer")
        return CAUGHT_UP

    [end] = ended(fail_twice)
    assert end.summary is CAUGHT_UP
    assert asked == [False, True, True]
    [end] = ended(failing(ClusterUnavailableError("east does not answer")), tries_again=False)
    assert isinstance(end.error, ClusterUnavailableError)
    [end] = ended(failing(PreconditionError("a is being mirrored")))
    assert isinstance(end.error, PreconditionError), "a start does not mend it"


def test_one_that_waits_to_begin_again_ends_when_asked() -> None:
    stop = threading.Event()

    def fail(_is_again: bool) -> RunSummary | None:
        stop.set()
        raise ClusterUnavailableError("east does not answer")

    [end] = run_together(
        ["a"], lambda _flow, again: fail(again), stop=stop, are_tried_again=True, on_end=lambda _end: None
    )
    assert isinstance(end.error, ClusterUnavailableError)


def test_what_nobody_foresaw_ends_its_flow_alone(caplog: pytest.LogCaptureFixture) -> None:
    first, second = ended(failing(ZeroDivisionError("by zero")), lambda _again: CAUGHT_UP)
    assert second.summary is CAUGHT_UP
    assert "by zero" in str(first.error)
    assert "ended by what nobody foresaw" in caplog.text


@pytest.mark.parametrize(
    ("ends", "code", "said"),
    [
        (
            [FlowEnd("a", STOPPED), FlowEnd("b", CAUGHT_UP)],
            UnsafeError.exit_code,
            "1 of 2 flows: a: 1 topic cannot be copied (exit 4)",
        ),
        (
            [FlowEnd("a", STOPPED), FlowEnd("b", error=ShutOutError("b was claimed by another process"))],
            MirrorLedgerError.exit_code,
            "2 of 2 flows: a: 1 topic cannot be copied (exit 4); b was claimed by another process (exit 5)",
        ),
        (
            [
                FlowEnd("a", error=ShutOutError("taken")),
                FlowEnd("b", error=PreconditionError("in use", "more")),
            ],
            PreconditionError.exit_code,
            "2 of 2 flows: a: taken (exit 5); b: in use (exit 5)",
        ),
    ],
)
def test_the_last_line_says_who_ended_why(ends: list[FlowEnd], code: int, said: str) -> None:
    with pytest.raises(MirrorLedgerError) as raised:
        require_all_ended_well(ends)
    assert (raised.value.exit_code, raised.value.lines) == (code, (said,))


def test_flows_that_ended_as_asked_are_no_error() -> None:
    require_all_ended_well([FlowEnd("a", CAUGHT_UP), FlowEnd("b")])
