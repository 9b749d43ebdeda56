"""Plans are printed as they are typed: `plan` makes of a line what the plan was, with what it names in place."""

from dataclasses import fields, replace
from typing import Any

import pytest

from ledger.changeover.extras import Extras
from ledger.changeover.planning import Planned, planned
from ledger.changeover.plans import ChangeoverKind, Choices, FenceChoice, StepName, plan_command
from ledger.changeover.scope import Seen, SeenReturn
from ledger.config.values import Objective
from ledger.facts.direction import Promoted
from ledger.facts.operations import RecordedStop
from ledger.facts.syncs import PartitionPair, TopicPartition
from ledger.mirror.assignment import StopCause
from ledger.offsets.setting import Outcome
from tests.support.seen_pairs import DEAD, SEEN, flow, loss, made, place, position
from tests.support.typed_plans import printed, typed

SWITCHOVER, FAILOVER, FAILBACK = (
    ChangeoverKind.SWITCHOVER,
    ChangeoverKind.FAILOVER,
    ChangeoverKind.FAILBACK,
)
ALL = Choices(
    topics=("a b", "orders"),
    groups=("it's", "x"),
    accepted=("gone", "no_commit"),
    fence=FenceChoice.HOOK,
    unproven="it burns; really",
    producers_stopped=True,
    confirmed_super_users=("User:a", "User:b"),
    abort_transactions_after=7.5,
    abort_marker=True,
    accept_unproven_shut_out=True,
    overwrite_newer=True,
    reverse=False,
    despite_objectives=True,
    drain_seconds=11.0,
    groups_seconds=12.0,
    progress_seconds=13.0,
    quiet_seconds=0.5,
    most_quiet_seconds=14.0,
    watch_seconds=3.0,
    hook_seconds=15.0,
)
OF_RETURNS: dict[str, Any] = {
    "extras": ("keep", "orders=salvage"),
    "deficits": ("return",),
    "given_up": ("orders",),
    "stays": True,
    "within": 5,
}
HOOKS = {StepName.FENCE: "ssh 'a b' stop", StepName.STOP_PRODUCERS: "stop --now"}
"""Every choice is another one than the default."""


@pytest.mark.parametrize("kind", [SWITCHOVER, FAILOVER, FAILBACK])
def test_a_plan_is_typed_with_all_that_was_chosen(kind: ChangeoverKind) -> None:
    own: dict[ChangeoverKind, dict[str, Any]] = {FAILOVER: {"source_given_up": True}, FAILBACK: OF_RETURNS}
    choices = replace(ALL, **own.get(kind, {}))
    plan = replace(made().plan, kind=kind, choices=choices, hooks={} if choices.stays else HOOKS)
    found = typed(plan_command(plan, kind, choices))
    assert (found.kind, found.way.source, found.way.target) == (kind, "east", "west")
    assert (found.choices, found.hooks) == (choices, plan.hooks)


def test_no_choice_is_forgotten() -> None:
    every = replace(ALL, source_given_up=True, left_out=("users",), **OF_RETURNS)
    assert [one.name for one in fields(Choices) if getattr(every, one.name) == one.default] == []
    found = typed(plan_command(made().plan, SWITCHOVER, Choices(left_out=("users", "a"))))
    assert found.choices == Choices(left_out=("a", "users"))
    assert plan_command(made().plan, SWITCHOVER, Choices()).endswith("plan switchover --from east --to west")


def test_what_another_kind_does_not_have_is_left_out() -> None:
    plan = replace(made().plan, hooks={**HOOKS, StepName.STOP_GROUPS: "stop"})
    choices = Choices(fence=FenceChoice.SHUT, source_given_up=True, within=5, extras=("keep",))
    assert typed(plan_command(plan, SWITCHOVER, choices)).choices == Choices(fence=FenceChoice.SHUT)
    there = typed(plan_command(plan, FAILOVER, choices))
    assert there.hooks == {StepName.STOP_PRODUCERS: "stop --now"}, "no step stops groups, and no hook fences"
    assert there.choices == Choices(fence=FenceChoice.SHUT, source_given_up=True)


# -- What is printed to be done ---------------------------------------------------------------------

RETURN = SeenReturn(topics=made().plan.topics, behind=7)


def returning(**changed: Any) -> Seen:
    return replace(SEEN, returned=replace(RETURN, **changed))


CASES: dict[str, tuple[Seen, ChangeoverKind, dict[str, Any]]] = {
    "source_unreachable": (replace(SEEN, source=DEAD), SWITCHOVER, {}),
    "source_answers": (SEEN, FAILOVER, {}),
    "not_mirrored": (replace(SEEN, flows=[flow(unmirrored=["users", "a b"])]), SWITCHOVER, {}),
    "partition_stopped": (
        replace(
            SEEN,
            flows=[
                flow(
                    positions=[position(), position("users")],
                    stopped={("E-users", 0): RecordedStop(StopCause.FOREIGN_WRITE, "x")},
                )
            ],
            source=replace(SEEN.source, topic_ids={"orders": "E-orders", "users": "E-users"}),
            target=replace(SEEN.target, topic_ids={"orders": "W-orders", "users": "W-users"}),
        ),
        SWITCHOVER,
        {"topics": ("orders", "users")},
    ),
    "objective": (replace(SEEN, objectives={Objective.MAX_DOWNTIME_SECONDS: 1}), SWITCHOVER, {}),
    "group_without_place": (
        replace(SEEN, places=[place(status="gone"), place("other", target_offset=None, status="no_map")]),
        SWITCHOVER,
        {"accepted": ("ahead",)},
    ),
    "mirror_not_shut_out": (replace(SEEN, shut_out_problem="no authorizer"), SWITCHOVER, {}),
    "no_reverse_flow": (replace(SEEN, reverse_flows={}), SWITCHOVER, {}),
    "lag": (
        replace(SEEN, objectives={Objective.MAX_LAG_RECORDS: 3}, losses=[loss(4, 1.0)]),
        SWITCHOVER,
        {"fence": FenceChoice.SHUT, "producers_stopped": True, "watch_seconds": 1.0},
    ),
    "not_promoted": (returning(not_promoted=("orders",)), FAILBACK, {"extras": ("keep",)}),
}


@pytest.mark.parametrize(("seen", "kind", "choices"), CASES.values(), ids=CASES)
def test_what_is_printed_ends_the_reason_and_keeps_what_was_chosen(
    seen: Seen, kind: ChangeoverKind, choices: dict[str, Any]
) -> None:
    found = made(seen, kind, **choices)
    [code] = {one.code for one in found.blockers}
    [advice] = {one.advice for one in found.recorded_blockers}
    there = typed(printed(advice))
    again = planned(there.kind, replace(seen, returned=None), there.choices, there.hooks)
    assert code not in again.plan.blockers, advice
    for name, value in choices.items():
        now = getattr(there.choices, name)
        is_kept = {*value} >= {*now} or {*now} >= {*value} if isinstance(value, tuple) else now == value
        assert is_kept or there.kind is not kind, (name, value, now)


def test_records_that_the_target_alone_has_lead_to_a_failback_that_keeps_them() -> None:
    left = Promoted(cluster="east", cluster_id="E", former="west", former_id="W", topics=None)
    seen = replace(SEEN, directions=replace(SEEN.directions, changes=((left, "ana"),)), extras={"orders": 3})
    advice = only(made(seen, watch_seconds=2.0))
    assert advice.count("mirror-ledger") == 1
    there = typed(printed(advice))
    assert there.kind is FAILBACK
    assert there.choices == Choices(watch_seconds=2.0, extras=("keep",))


@pytest.mark.parametrize(
    ("before", "policy", "after"),
    [
        ((), "keep", ("keep",)),
        (("users=salvage",), "keep", ("orders=keep", "users=salvage")),
        (("orders=replicate", "recreate"), "keep", ("orders=keep", "recreate")),
    ],
)
def test_decisions_of_other_topics_are_kept(
    before: tuple[str, ...], policy: str, after: tuple[str, ...]
) -> None:
    pair = PartitionPair(TopicPartition("orders", "W", 0), TopicPartition("orders", "E", 0))
    seen = returning(extras=(Extras(flow().config, pair, ((10, 14),)),), undecided=("orders",))
    assert typed(printed(only(made(seen, FAILBACK, extras=before)))).choices.extras == after


def test_without_a_choice_that_helps_nothing_is_printed_to_be_typed() -> None:
    seen = replace(SEEN, fence_refusal="topic t is fenced (closed) already")
    shut: dict[str, Any] = {"fence": FenceChoice.SHUT, "producers_stopped": True}
    assert "mirror-ledger" not in only(made(seen, **shut))
    assert typed(printed(only(made(seen)))).choices == Choices(**shut)


def test_what_a_group_has_read_at_the_target_is_taken_back_by_name_and_nothing_else_is() -> None:
    of = {one: replace(SEEN, hindered={("billing", "orders", 0): one}) for one in Outcome}
    newer = typed(printed(only(made(of[Outcome.NEWER]))))
    assert newer.choices == Choices(overwrite_newer=True)
    assert "mirror-ledger" not in only(made(of[Outcome.GROUP_DENIED]))


def only(found: Planned) -> str:
    [advice] = {one.advice for one in found.recorded_blockers}
    return advice
