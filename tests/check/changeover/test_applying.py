"""A plan is carried out once, step by step, wherever the process ends in between."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ledger.changeover.plans import Applies, ApplyState, ChangeoverKind, StepName
from ledger.changeover.text import BEGUN, checklist
from ledger.cli.printing import say_error
from ledger.errors import PreconditionError, ShutOutError, StepRefusedError
from tests.simulation.ledger.rows import MemoryRows
from tests.support.changeovers import Crash, Stage, plan, with_hooks

_MOMENTS = ("before", "after")


def test_each_step_has_a_receipt_in_order() -> None:
    stage = Stage(with_hooks(plan(), stop_producers="stop them"))
    stage.apply()
    done = stage.last
    assert (done.state, tuple(done.done)) == (ApplyState.DONE, stage.plan.steps)
    assert (done.operator, done.reason, done.ticket, done.host) == ("ana", "a fire", "OPS-1", "host:1:1:")
    assert done.done[StepName.CUT].read_back == {"mark": True}
    assert done.done[StepName.STOP_PRODUCERS].hook == {"exit_code": 0, "output": "ran stop them"}
    assert set(done.done_at_ms) == set(done.begun) == set(stage.plan.steps)


@pytest.mark.parametrize("kind", list(ChangeoverKind))
def test_a_crash_anywhere_comes_to_the_same_end(kind: ChangeoverKind) -> None:
    moments = [(step, moment) for step in plan(kind).steps for moment in _MOMENTS]
    for at in moments:
        stage = Stage(plan(kind))

        def crash(step: StepName, moment: str, at: tuple[StepName, str] = at) -> None:
            if (step, moment) == at:
                raise Crash

        stage.crash = crash
        with pytest.raises(Crash):
            stage.apply()
        assert stage.last.state is ApplyState.OPEN
        assert at[0] not in stage.last.done
        stage.crash = lambda _step, _moment: None
        stage.apply(host="host:2:2:")
        assert len(stage.applies().by_id) == 1
        assert (stage.last.state, set(stage.last.done)) == (ApplyState.DONE, set(stage.plan.steps)), at
        assert set(stage.marks) == set(stage.plan.steps)


def test_a_step_that_fails_names_the_plan_in_what_is_typed_to_continue(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = Stage(plan())
    stage.failing[StepName.DRAIN] = PreconditionError(
        "not within 300 s", "Then continue: mirror-ledger apply PLAN_ID"
    )
    with pytest.raises(PreconditionError) as failed:
        stage.apply()
    say_error(failed.value)
    typed = f"mirror-ledger apply {stage.plan.plan_id}"
    assert capsys.readouterr().err.endswith(f"continue: {typed}\n")
    assert typed in stage.lines[-1][1]
    assert typed in stage.last.failed[StepName.DRAIN].words


class _EndingWith(list[tuple[StepName, str]]):
    """Lines of a process that ends with one of them."""

    def append(self, line: tuple[StepName, str]) -> None:
        if line == (StepName.REPORT, "report is done"):
            raise Crash


def test_the_figures_of_an_apply_are_told_at_its_end_whoever_measured_them() -> None:
    stage = Stage(plan())
    stage.lines = _EndingWith()
    with pytest.raises(Crash):
        stage.apply()
    assert StepName.REPORT in stage.last.done
    stage.lines = []
    stage.apply(host="host:2:2:")
    [ended] = [row for row in stage.ledger.rows("operations") if row["kind"] == "apply_ended"]
    assert json.loads(ended["content"])["figures"] == {"mark": True}


def test_what_was_proven_is_proven_again_until_the_cut_is_taken() -> None:
    def again(crashed: StepName) -> Counter[StepName]:
        stage = Stage(plan())

        def crash(step: StepName, moment: str) -> None:
            if (step, moment) == (crashed, "before"):
                raise Crash

        stage.crash = crash
        with pytest.raises(Crash):
            stage.apply()
        stage.crash = lambda _step, _moment: None
        stage.apply()
        return Counter(stage.marks)

    before, after = again(StepName.PROMOTE), again(StepName.MOVE_GROUPS)
    assert (before[StepName.FENCE], before[StepName.DRAIN], before[StepName.STOP_PRODUCERS]) == (2, 2, 1)
    assert (after[StepName.FENCE], after[StepName.DRAIN], after[StepName.CUT]) == (1, 1, 1)


@pytest.mark.parametrize("moment", ["hook", "before", "after"])
def test_groups_are_not_set_again_once_applications_may_have_been_started(moment: str) -> None:
    stage = Stage(with_hooks(plan(), start_applications="start them"))

    def crash(step: StepName, at: str) -> None:
        if (step, at) == (StepName.START_APPLICATIONS, moment):
            raise Crash

    stage.crash = crash
    with pytest.raises(Crash):
        stage.apply()
    stage.crash = lambda _step, _moment: None
    stage.failing[StepName.START_APPLICATIONS] = StepRefusedError("1 group with members at east")
    with pytest.raises(StepRefusedError):
        stage.apply()
    stage.failing.clear()
    stage.apply()
    assert (stage.last.state, stage.marks[StepName.MOVE_GROUPS]) == (ApplyState.DONE, 1)


def test_groups_are_set_again_while_what_starts_applications_has_been_refused_only() -> None:
    stage = Stage(plan())
    stage.failing[StepName.START_APPLICATIONS] = StepRefusedError("1 group with members at east")
    for times in (1, 2):
        with pytest.raises(StepRefusedError):
            stage.apply()
        assert stage.marks[StepName.MOVE_GROUPS] == times
    stage.failing.clear()
    stage.apply()
    assert stage.marks[StepName.MOVE_GROUPS] == 3


def test_a_hook_that_failed_may_have_started_applications() -> None:
    """And what a step is refused for behind its hook was not refused before it."""
    for error in (PreconditionError("the hook ended with 1"), StepRefusedError("behind the hook")):
        stage = Stage(with_hooks(plan(), start_applications="start them"))
        stage.failing[StepName.START_APPLICATIONS] = error
        with pytest.raises(PreconditionError):
            stage.apply()
        stage.failing.clear()
        stage.apply()
        assert stage.marks[StepName.MOVE_GROUPS] == 1


def test_a_step_that_fails_is_recorded_and_can_be_continued() -> None:
    stage = Stage(plan())
    stage.failing[StepName.DRAIN] = PreconditionError("3 offsets to copy")
    with pytest.raises(PreconditionError, match="3 offsets"):
        stage.apply()
    assert (stage.last.state, stage.last.failed[StepName.DRAIN].words) == (
        ApplyState.OPEN,
        "3 offsets to copy",
    )
    assert StepName.PROMOTE not in stage.marks
    stage.failing.clear()
    stage.apply()
    assert (stage.last.state, stage.last.failed) == (ApplyState.DONE, {})


def test_a_step_takes_what_it_was_at_work_not_what_lay_between_two_processes() -> None:
    stage = Stage(plan())

    def takes_two_seconds(step: StepName, moment: str) -> None:
        if (step, moment) == (StepName.FENCE, "after"):
            stage.clock.now_s += 2.0

    stage.crash = takes_two_seconds
    stage.failing[StepName.DRAIN] = PreconditionError("3 offsets to copy")
    with pytest.raises(PreconditionError):
        stage.apply()
    stage.failing.clear()
    stage.clock.now_s += 3_600.0
    stage.apply()
    took_ms = stage.last.took_ms
    assert (took_ms[StepName.FENCE], took_ms[StepName.DRAIN]) == (4_000, 0), "proven twice, and nobody waited"
    assert stage.last.done_at_ms[StepName.FENCE] - stage.last.begun[StepName.FENCE] == 3_604_000
    assert set(took_ms) == set(stage.plan.steps)


def test_who_is_shut_out_begins_no_further_step_and_records_nothing() -> None:
    stage = Stage(plan())
    other: list[bool] = []

    def crash(step: StepName, moment: str) -> None:
        if (step, moment) == (StepName.PROMOTE, "after") and not other:
            other.append(True)
            stage.apply(host="host:2:2:")

    stage.crash = crash
    with pytest.raises(ShutOutError):
        stage.apply()
    assert (stage.last.state, stage.last.host) == (ApplyState.DONE, "host:2:2:")
    assert stage.marks[StepName.CUT] == 1


def test_a_process_shows_that_it_is_alive_in_a_step_that_says_nothing_for_long() -> None:
    stage = Stage(plan())

    @contextmanager
    def beside(act: Callable[[], None]) -> Iterator[None]:
        for _ in range(2):
            stage.clock.now_s += 6
            act()
        yield

    stage.beside = beside
    stage.apply()
    rows = MemoryRows(stage.ledger).rows("operations", [])
    silent = [row for row in rows if row["kind"] == "apply_alive" and "waits" not in row["content"]]
    assert len(silent) == len(stage.plan.steps)


def test_what_a_step_waits_for_is_in_the_ledger_as_soon_as_it_says_so() -> None:
    stage = Stage(plan())

    def crash(step: StepName, moment: str) -> None:
        if (step, moment) == (StepName.DRAIN, "after"):
            raise Crash

    stage.crash = crash
    with pytest.raises(Crash):
        stage.apply()
    stopped = Applies.read(MemoryRows(stage.ledger).rows).open()
    assert stopped is not None
    assert stopped.waits == {StepName.DRAIN: "at it"}
    assert [one.words for one in checklist(stage.plan, stopped) if one.state == BEGUN] == ["at it"]


def test_a_process_that_waits_shows_that_it_is_alive() -> None:
    stage = Stage(plan())

    def crash(_step: StepName, moment: str) -> None:
        if moment == "before":
            stage.clock.now_s += 11

    stage.crash = crash
    stage.apply()
    kinds = Counter(row["kind"] for row in MemoryRows(stage.ledger).rows("operations", []))
    assert kinds["apply_alive"] == len(stage.plan.steps)
