"""Plans that lead home after a failover, and plans of a cluster that is to protect another one: from what was seen."""

from dataclasses import replace
from typing import Any

import pytest

from ledger.changeover.extras import Extras
from ledger.changeover.plans import BlockerCode, ChangeoverKind, FenceChoice, PlannedTopic, StepName
from ledger.changeover.scope import RepeatCause, SeenReturn
from ledger.changeover.text import ShownPlan, plan_table
from ledger.config.values import Objective, TargetMode
from ledger.errors import UsageError
from ledger.facts.syncs import PartitionPair, TopicPartition
from tests.support.seen_pairs import DEAD, SEEN, flow, made

HOME, PROTECT = ChangeoverKind.FAILBACK, ChangeoverKind.PROTECT
ORDERS = PlannedTopic(
    flow="flow", source_topic="orders", source_topic_id="E-orders", topic="orders", topic_id="W-orders"
)
EXTRAS = Extras(
    flow().config,
    PartitionPair(TopicPartition("orders", "W-orders", 0), TopicPartition("orders", "E-orders", 0)),
    ((10, 14), (20, 21)),
    readers={"billing": 3},
)


def seen(**changed: Any) -> Any:
    return replace(SEEN, returned=SeenReturn(topics=(ORDERS,), **{"behind": 7, **changed}))


def test_the_way_home_begins_before_anybody_is_stopped() -> None:
    found = made(seen(), HOME)
    assert found.blockers == ()
    assert found.plan.steps[:6] == (
        *(StepName.CHECK, StepName.FENCE_TARGET, StepName.MIRROR_BACK, StepName.CATCH_UP),
        *(StepName.RECORD, StepName.STOP_PRODUCERS),
    )
    assert StepName.REVERSE in found.plan.steps
    assert StepName.SETTLE not in found.plan.steps
    text = plan_table(ShownPlan(found.plan, found.forecast))
    assert (
        "7 offsets of east, not copied yet, come back in step 4, and what is written there meanwhile" in text
    )
    assert "0 offsets at west were never copied" in text
    assert "lost" not in text, "what comes back is not"


def test_who_stays_gets_the_first_steps_alone() -> None:
    found = made(seen(), HOME, stays=True)
    assert [str(step) for step in found.plan.steps] == ["check", "fence_target", "mirror_back", "catch_up"]
    assert not found.plan.moves_applications


@pytest.mark.parametrize(
    ("changed", "fence", "code", "words"),
    [
        (
            {"extras": (EXTRAS,), "undecided": ("orders",)},
            FenceChoice.CLOSED,
            BlockerCode.EXTRAS,
            "orders partition 0: 5 offsets (10 to 13, 20 to 20); read by 'billing' (3)",
        ),
        (
            {"not_promoted": ("orders",)},
            FenceChoice.CLOSED,
            BlockerCode.NOT_PROMOTED,
            "orders of east is not promoted",
        ),
        (
            {"not_fenced": ("orders",)},
            FenceChoice.HOOK,
            BlockerCode.NOT_FENCED,
            "orders of west is not fenced",
        ),
        (
            {"fence_refusal": "no authorizer"},
            FenceChoice.CLOSED,
            BlockerCode.FENCE,
            "west could not be fenced: no authorizer",
        ),
        (
            {"at_work": ("audit",)},
            FenceChoice.CLOSED,
            BlockerCode.GROUP_ACTIVE_AT_TARGET,
            "1 group with members at west",
        ),
    ],
)
def test_what_stands_against_the_way_home(
    changed: dict[str, Any], fence: FenceChoice, code: BlockerCode, words: str
) -> None:
    [blocker] = made(seen(**changed), HOME, fence=fence).blockers
    assert blocker.code == code
    assert words in blocker.words


def test_what_is_decided_stands_against_nothing_and_is_said() -> None:
    found = made(seen(extras=(EXTRAS,)), HOME, extras=("keep",))
    assert found.blockers == ()
    assert "5 offsets at west were never copied (0 records): keep" in plan_table(
        ShownPlan(found.plan, found.forecast)
    )


def test_topics_that_are_deleted_are_said_by_name() -> None:
    found = made(seen(extras=(EXTRAS,), recreated=frozenset({"orders"})), HOME, extras=("recreate",))
    assert found.blockers == ()
    text = plan_table(ShownPlan(found.plan, found.forecast))
    assert "orders of west, and created again: until all has come back east alone has it" in text


def test_what_groups_read_again_is_said_by_cause_and_held_against_what_is_allowed() -> None:
    again = seen(extras=(EXTRAS,), repeats={"billing": {RepeatCause.READ_BEFORE: 3}})
    found = made(again, HOME, extras=("replicate",))
    assert found.blockers == ()
    assert "'billing' 3 (extras that it had read before)" in plan_table(ShownPlan(found.plan, found.forecast))
    few = replace(again, objectives={Objective.MAX_REPEATS_PER_GROUP: 2})
    [blocker] = made(few, HOME, extras=("replicate",)).blockers
    assert (blocker.code, "group 'billing'" in blocker.words) == (BlockerCode.OBJECTIVE, True)
    assert made(few, HOME, extras=("replicate",), despite_objectives=True).blockers == ()
    unknown = replace(
        few, returned=replace(again.returned, repeats={"billing": {RepeatCause.READ_BEFORE: None}})
    )
    assert [one.code for one in made(unknown, HOME, extras=("replicate",)).blockers] == [
        BlockerCode.OBJECTIVE
    ]


def test_nobody_goes_home_to_a_cluster_that_does_not_answer() -> None:
    found = made(replace(seen(), target=DEAD), HOME)
    assert [one.code for one in found.blockers] == [BlockerCode.TARGET_UNREACHABLE]


def test_where_nothing_was_promoted_it_is_a_switchover() -> None:
    prefixed = replace(SEEN, flows=[flow(config={"target_mode": TargetMode.SHARED})])
    home, switch = made(prefixed, HOME), made(prefixed, ChangeoverKind.SWITCHOVER)
    assert home.plan.steps == switch.plan.steps
    said = [plan_table(ShownPlan(one.plan, one.forecast)) for one in (home, switch)]
    assert ["the flows of both directions continue" in one for one in said] == [True, False]
    for choices in ({"extras": ("keep",)}, {"stays": True}):
        with pytest.raises(UsageError, match="both directions continue"):
            made(prefixed, HOME, **choices)


def test_a_cluster_that_protects_another_one_moves_nobody() -> None:
    new = replace(ORDERS, topic_id="")
    found = made(
        replace(SEEN, returned=SeenReturn(topics=(new,), is_open=True, behind=7, bytes=2_000_000)), PROTECT
    )
    assert [str(step) for step in found.plan.steps] == ["check", "accept_cluster", "catch_up"]
    assert "7 offsets of east, about 2.0 MB" in plan_table(ShownPlan(found.plan, found.forecast))
    dead = replace(
        SEEN, source=replace(DEAD, alias="east"), returned=SeenReturn(topics=(ORDERS,), is_open=True)
    )
    assert [one.code for one in made(dead, PROTECT).blockers] == [BlockerCode.SOURCE_UNREACHABLE]
    with pytest.raises(UsageError, match="no enabled flow copies a topic of east to west"):
        made(replace(SEEN, returned=SeenReturn(topics=())), PROTECT)
