"""Histories of changes of direction in memory: there and back, meddled with, with topics that are given up."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from ledger.changeover.plans import BlockerCode, ChangeoverKind, Choices, StepName
from ledger.changeover.scope import KnownMap, NotCopied, from_elsewhere
from ledger.errors import PreconditionError, UsageError
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.support.changing_histories import PLACES, Fate, ScopedLife, TravellingPair, meddle
from tests.support.changing_pairs import (
    BILLING,
    FAILOVER,
    FORWARD,
    REVERSE,
    SHOP,
    SWITCHOVER,
    TOPICS,
    at_clusters,
)
from tests.support.operator_processes import ProcessEnded
from tests.support.seen_pairs import SEEN, made, place

# -- There and back --------------------------------------------------------------------------------


def stops(pair: TravellingPair, flow: str) -> set[str]:
    return {str(stop.cause) for stop in MemoryLedgerState(pair.ledger).stopped_partitions(flow).values()}


def begins(step: StepName) -> str:
    return f"ledger: apply operations step_begun {step}"


def test_applications_go_there_and_back_by_plans_and_an_undone_plan_leaves_all_as_it_was() -> None:
    pair = TravellingPair()
    settings = at_clusters(pair)["east settings"]
    pair.work()
    there = pair.switch()
    pair.work()
    pair.come_together()
    with pytest.raises(PreconditionError, match=r"plan switchover --from west --to east --reason"):
        pair.undo(there)
    with pytest.raises(
        PreconditionError, match=r"(?s)records behind what flow east-to-west has copied.*--keep-ends"
    ):
        pair.demote()

    pair.close_east()
    pair.recorders.record_all()
    before = at_clusters(pair)
    assert {
        one.entity for one in pair.east.acls if (one.permission_type, one.operation) == ("deny", "read")
    } == {BILLING}
    assert before["east settings"] != settings, "retention is held"
    with pytest.raises(ProcessEnded):
        pair.apply(
            pair.planned_way(), pair.outside.process(before=begins(StepName.START_APPLICATIONS).__eq__)
        )
    [given_up] = [one.operation_id for one in pair.applies() if one.operation_id != there]
    pair.undo(given_up)
    now = at_clusters(pair)
    assert {what: now[what] for what in now if "rules" in what} == {
        w: before[w] for w in before if "rules" in w
    }
    assert now == before
    pair.start_again()
    pair.work()  # at west still, and all of it comes to east
    pair.come_together()

    back = pair.switch()
    assert "mirror-ledger run east-to-west --from-cut " + back in pair.told(back)["reverse"]
    assert at_clusters(pair)["east settings"] == settings
    assert not any(pair.west.lets_write(SHOP, *place) for place in PLACES), "west is fenced"
    pair.work()
    pair.come_together()
    assert (stops(pair, FORWARD), stops(pair, REVERSE)) == (set(), {"promoted"})
    pair.require_once_each()
    pair.end()


# -- Meddled with ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "what"),
    [
        ("42", "written at east before audit: orders: orders partition 0: an application has written"),
        ("18", "set to the end at west before hand_over: not every group continues at west"),
        ("12", "read on, and recorded before promote: done"),
    ],
)
def test_what_happens_between_two_processes_is_found_by_the_next_one(seed: str, what: str) -> None:
    assert meddle(seed).startswith(what)


# -- What a change is about ------------------------------------------------------------------------

REFUNDS = NotCopied(flow="flow", source_topic="refunds", topic="refunds", beyond=5, age_seconds=3.0)
LEFT = replace(SEEN, not_copied=[REFUNDS])
READ = place(source_topic="refunds", target_topic="refunds")


def test_what_no_flow_copies_any_more_is_a_blocker_with_what_lies_behind_its_map() -> None:
    [blocker] = made(LEFT).blockers
    assert blocker.code is BlockerCode.NOT_COPIED_ANY_MORE
    assert "refunds of east" in blocker.words
    assert blocker.words.endswith("5 records known behind what was copied, read 3 s ago")
    [unknown] = made(replace(SEEN, not_copied=[replace(REFUNDS, beyond=None)])).blockers
    assert "unknown" in unknown.words
    assert "--leave-out TOPIC" in blocker.advice


def test_no_place_is_set_there_even_where_the_ledger_has_one() -> None:
    found = made(replace(LEFT, places=[place(), READ]))
    assert [row["target_offset"] for row in found.places] == [7, None]
    assert found.plan.blockers == (BlockerCode.NOT_COPIED_ANY_MORE,), (
        "one line, for all groups and partitions"
    )
    by_way_of_others = made(replace(SEEN, places=[place(), READ]))
    [blocker] = by_way_of_others.blockers
    assert blocker.code is BlockerCode.NOT_COPIED_ANY_MORE
    assert "'billing'" in blocker.words


def test_it_is_left_out_by_name_and_then_the_plan_says_who_gets_no_place_there() -> None:
    found = made(replace(LEFT, places=[place(), READ]), left_out=("refunds",))
    assert found.blockers == ()
    assert [row["target_topic"] for row in found.places] == ["orders"]
    assert found.forecast["without_place"] == {"refunds": 1}
    assert made(SEEN).plan.plan_id != found.plan.plan_id
    with pytest.raises(UsageError, match=r"--leave-out refnds: nothing of that name.*nothing was planned"):
        made(LEFT, left_out=("refnds",))
    with pytest.raises(UsageError, match="nothing was planned"):
        made(LEFT, left_out=("refunds",), topics=("orders",))
    with pytest.raises(UsageError, match="but what is left out"):
        made(SEEN, left_out=("orders",))


def test_a_plan_for_named_topics_leaves_the_others_out_and_none_is_named_that_nobody_copies() -> None:
    assert made(LEFT, topics=("orders",)).blockers == ()
    with pytest.raises(UsageError, match="no enabled flow copies to refunds any more"):
        made(LEFT, topics=("orders", "refunds"))


def test_a_group_that_nobody_records_any_more_moves_only_by_name() -> None:
    seen = replace(SEEN, records_group=lambda group: group != "billing")
    [blocker] = made(seen).blockers
    assert blocker.code is BlockerCode.GROUP_WITHOUT_PLACE
    assert "not_recorded is not accepted" in blocker.words
    assert made(seen, accepted=("not_recorded",)).blockers == ()


def known(source: str, target: str, topics: tuple[str, str], **changed: bool) -> KnownMap:
    values = {"is_copied": True, **changed}
    return KnownMap(
        flow="f",
        source=source,
        target=target,
        source_topic=topics[0],
        source_topic_id="S",
        topic=topics[1],
        topic_id="T",
        **values,
    )


def test_groups_have_other_places_where_a_mirror_writes_at_the_former_source() -> None:
    home = known("west", "east", ("orders", "west.orders"))
    assert from_elsewhere([home], "east", "west") == {("west.orders", "orders")}
    held = known("west", "east", ("orders", "orders"), is_held=True)
    assert from_elsewhere([held], "east", "west") == set(), "applications write it at east"
    away = known("east", "west", ("orders", "orders"), is_copied=False)
    same = known("west", "east", ("orders", "orders"))
    assert from_elsewhere([away, same], "east", "west") == set(), "it was copied away from there"
    origin = [known("north", "east", ("t", "t_here")), known("north", "west", ("t", "t_there"))]
    assert from_elsewhere(origin, "east", "west") == {("t_here", "t_there")}
    stopped = [origin[0], known("north", "west", ("t", "t_there"), is_copied=False)]
    assert from_elsewhere(stopped, "east", "west") == set()


# Whole lives --------------------------------------------------------------------------------------


def test_a_switchover_without_such_a_topic_leaves_it_and_its_readers_alone_and_so_does_its_undo() -> None:
    life = ScopedLife.of({"refunds": Fate.DESELECTED})
    pair = life.pair
    cast(dict[str, Any], pair.outside.hooks)["start-applications"] = lambda: None
    blocked = life.made(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    assert [one.code for one in blocked.blockers] == [BlockerCode.NOT_COPIED_ANY_MORE]
    assert "5 records known" in blocked.blockers[0].words

    operation_id = life.applied(ChangeoverKind.SWITCHOVER, replace(SWITCHOVER, progress_seconds=0.0))
    life.require_nothing_unguarded(operation_id)
    assert life.promoted(operation_id) == set(TOPICS)
    assert "refunds" not in life.set_at_west()
    assert pair.east.lets_write(SHOP, "refunds", 0)
    directions = MemoryLedgerState(pair.ledger).directions()
    assert directions.promotion("east", "west", "refunds") is None
    assert directions.promotion("east", "west", "what comes later") is not None

    pair.undo(operation_id)
    told = [
        json.loads(row["content"])
        for row in pair.rows("operations", operation_id)
        if row["kind"] == "demoted"
    ]
    assert [(one["topics"], one["later"], one["left_out"]) for one in told] == [
        (sorted(TOPICS), True, ["refunds"])
    ]
    directions = MemoryLedgerState(pair.ledger).directions()
    assert set(directions.promotions("east", "west", None).values()) == {None}
    pair.end()


def test_a_failover_counts_what_lies_behind_a_map_that_nobody_continued() -> None:
    life = ScopedLife.of({"refunds": Fate.DESELECTED}, behind=50)
    life.pair.lose_east(with_driver=False)
    blocked = life.made(ChangeoverKind.FAILOVER, FAILOVER)
    assert [one.code for one in blocked.blockers] == [BlockerCode.NOT_COPIED_ANY_MORE]
    assert "50 records known" in blocked.blockers[0].words
    assert all(row["target_offset"] is None for row in blocked.places if row["source_topic"] == "refunds")
    life.pair.end()


@pytest.mark.parametrize("seed", [12])
def test_nothing_is_set_or_promoted_that_was_not_fenced_drained_and_counted(seed: int) -> None:
    life = ScopedLife.of_seed(seed)
    life.require_nothing_unguarded(life.applied(ChangeoverKind.SWITCHOVER, SWITCHOVER))
    life.pair.end()


def test_choices_of_earlier_plans_are_read() -> None:
    plan = made(SEEN).plan
    content = plan.content()
    assert "left_out" not in content["choices"], "ids of earlier plans stay what they are"
    assert type(plan).of_content(content) == plan
    chosen = replace(plan, choices=Choices(left_out=("refunds",)))
    assert type(plan).of_content(chosen.content()) == chosen
