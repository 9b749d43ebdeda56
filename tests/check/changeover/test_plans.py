"""The id of a plan is that of what it would do."""

import json
from dataclasses import replace

import pytest

from ledger.changeover.plans import (
    BlockerCode,
    ChangeoverKind,
    Choices,
    FenceChoice,
    Plan,
    StepName,
    id_of,
    recorded_plan,
    steps_of,
)
from ledger.errors import PreconditionError, UsageError
from ledger.facts.changeovers import PlanRecorded
from tests.support.changeovers import ORDERS, plan, with_hooks

_FULL = with_hooks(
    plan(
        choices=Choices(
            topics=("orders",), groups=("billing",), accepted=("no_commit",), fence=FenceChoice.SHUT
        ),
        blockers=(BlockerCode.OBJECTIVE,),
        direction="demoted",
    ),
    stop_producers="systemctl stop orders",
)


@pytest.mark.parametrize(
    "made", [plan(), plan(ChangeoverKind.FAILOVER), _FULL], ids=["plain", "failover", "full"]
)
def test_a_plan_is_read_as_it_was_recorded(made: Plan) -> None:
    again = Plan.of_content(json.loads(json.dumps(made.content())))
    assert (again, again.plan_id) == (made, made.plan_id)


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        (replace(_FULL, from_cluster_id="other"), "from_cluster_id"),
        (replace(_FULL, topics=(replace(ORDERS, topic_id="W2"),)), "topics"),
        (replace(_FULL, choices=replace(_FULL.choices, abort_marker=True)), "choices"),
        (replace(_FULL, choices=replace(_FULL.choices, hook_seconds=60.0)), "choices"),
        (replace(_FULL, choices=replace(_FULL.choices, watch_seconds=0.0)), "choices"),
        (replace(_FULL, hooks={}), "hooks"),
        (replace(_FULL, direction=None), "direction"),
        (replace(_FULL, permissions="more"), "permissions"),
        (replace(_FULL, blockers=()), "blockers"),
    ],
)
def test_another_plan_has_another_id_and_says_in_what_it_differs(changed: Plan, key: str) -> None:
    assert changed.plan_id != _FULL.plan_id
    assert _FULL.differences(changed) == [key]


def test_only_what_can_be_promoted_has_steps_about_the_mirror() -> None:
    about_the_mirror = {StepName.PROMOTE, StepName.SHUT_OUT, StepName.HAND_OVER, StepName.REVERSE}
    for kind in ChangeoverKind:
        promoted, plain = (steps_of(kind, is_promoted=one) for one in (True, False))
        assert set(promoted) - set(plain) <= about_the_mirror
        assert not about_the_mirror & set(plain)
        assert list(promoted) == sorted(promoted, key=list(StepName).index)


def test_a_failover_asks_nothing_of_the_source_that_only_a_living_one_can_do() -> None:
    steps = steps_of(ChangeoverKind.FAILOVER, is_promoted=True)
    assert {StepName.DRAIN, StepName.STOP_GROUPS, StepName.REVERSE}.isdisjoint(steps)
    assert steps.index(StepName.SHUT_OUT) < steps.index(StepName.SETTLE) < steps.index(StepName.CUT)
    assert StepName.SETTLE not in steps_of(ChangeoverKind.SWITCHOVER, is_promoted=True)


def _rows(content: dict[str, object], plan_id: str) -> list[dict[str, object]]:
    recorded = PlanRecorded(plan_id=plan_id, plan=content, blockers=(), cut="c", forecast={})
    return [{"operation_id": "o", "content": json.dumps(recorded.content())}]


def test_a_plan_that_this_ledger_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="an older copy of a ledger lacks the later ones"):
        recorded_plan(_rows(plan().content(), "another"), plan().plan_id)


def test_a_plan_of_another_program_is_refused() -> None:
    content = {**plan().content(), "steps": ["conjure"]}
    with pytest.raises(PreconditionError, match="another version of the program"):
        recorded_plan(_rows(content, id_of(content)), id_of(content))


def test_another_plan_under_the_id_of_one_that_was_read_is_never_taken_for_it() -> None:
    read = plan().plan_id
    own, other = _rows(plan().content(), read), _rows(_FULL.content(), read)
    for rows in (other, [*own, *other]):
        with pytest.raises(PreconditionError, match=f"has the id {_FULL.plan_id}.*nothing was done"):
            recorded_plan(rows, read)
    for rows in (own, [*other, *own]):
        assert recorded_plan(rows, read)[0] == plan()
    assert recorded_plan([*own, *other], read, is_begun=True)[0] == plan(), (
        "its way back is the way back of that"
    )
    with pytest.raises(PreconditionError, match="another plan"):
        recorded_plan(other, read, is_begun=True)
