"""One process carries out plans of a ledger, wherever others are."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ledger.changeover.plans import Applies, Apply, ApplyState
from ledger.changeover.role import continued, require_nobody_at_work, require_not_done
from ledger.errors import PreconditionError
from ledger.facts.changeovers import PlanRecorded
from ledger.facts.roles import LastClaim, ProcessMark
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.support.changeovers import Stage, plan
from tests.support.fakes import OWN_MARK, FakeClock, FakeProcesses

HERE, THERE = ProcessMark(OWN_MARK.host, 77, 1, OWN_MARK.place), ProcessMark("other", 77, 1)
LAST = "the last that carried out a plan, is taken for dead in"
CLAIM = LastClaim(epoch=4, host=str(HERE), released=False, last_recorded_at_ms=1_000, claimed_at_ms=900)


def followed(
    claim: LastClaim | None, processes: FakeProcesses, later: Callable[[], LastClaim] | None = None
) -> int:
    clock, asked, said = FakeClock(), [0], list[str]()

    def last_claim() -> LastClaim | None:
        asked[0] += 1
        return claim if later is None or asked[0] == 1 else later()

    def sleep(seconds: float) -> None:
        clock.now_s += seconds

    try:
        return require_nobody_at_work(last_claim, processes, clock, sleep, said.append)
    finally:
        is_elsewhere = claim is not None and claim.host == str(THERE)
        assert said[:1] == ([f"process 77 on other, {LAST} 30 s"] if is_elsewhere else [])


def test_a_role_that_nobody_has_is_free() -> None:
    assert followed(None, FakeProcesses()) == 0
    assert followed(replace(CLAIM, released=True), FakeProcesses(alive={HERE})) == 4


def test_of_this_host_the_process_is_seen() -> None:
    assert followed(CLAIM, FakeProcesses()) == 4
    with pytest.raises(PreconditionError, match="another process carries out a plan"):
        followed(CLAIM, FakeProcesses(alive={HERE}))


def test_of_another_host_silence_is_measured_here() -> None:
    claim = replace(CLAIM, host=str(THERE))
    assert followed(claim, FakeProcesses()) == 4
    with pytest.raises(PreconditionError, match="another process carries out a plan"):
        followed(claim, FakeProcesses(), later=lambda: replace(claim, last_recorded_at_ms=1_001))


def apply(plan_id: str, state: ApplyState) -> Apply:
    return Apply(plan_id + "-op", plan_id, "ana", None, None, begun_at_ms=1_000, state=state)


def test_an_open_apply_is_continued_and_keeps_other_plans_out() -> None:
    done, begun = apply("a", ApplyState.DONE), apply("b", ApplyState.OPEN)
    applies = Applies({one.operation_id: one for one in (done, begun)})
    assert continued(applies, "b") == begun
    assert continued(Applies({"a-op": done}), "b") is None
    with pytest.raises(PreconditionError, match=r"plan b is being carried out.*mirror-ledger undo b-op"):
        continued(applies, "c")


def test_a_plan_is_carried_out_again_once_it_was_planned_again() -> None:
    stage = Stage(plan())

    def planned() -> PlanRecorded:
        return PlanRecorded(
            plan_id=stage.plan.plan_id,
            plan=stage.plan.content(),
            blockers=(),
            cut=OpenedSnapshot(stage.ledger).cut.token,
            forecast={},
        )

    first = planned()
    require_not_done(stage.applies(), first)
    stage.apply()
    done = stage.last.operation_id
    with pytest.raises(
        PreconditionError, match=f"carried out by operation {done}; nothing was done: plan again"
    ):
        require_not_done(stage.applies(), first)
    stage.clock.now_s -= 3600  # who plans again may have another clock
    again = planned()
    require_not_done(stage.applies(), again)
    assert continued(stage.applies(), again.plan_id) is None

    stage.apply()
    one, other = stage.applies().of_plan(again.plan_id)
    assert (one.operation_id, one.state, other.state) == (done, ApplyState.DONE, ApplyState.DONE)
    for recorded in (first, again, replace(again, cut="v1.former")):
        with pytest.raises(PreconditionError, match=f"operation {other.operation_id}; nothing was done"):
            require_not_done(stage.applies(), recorded)
