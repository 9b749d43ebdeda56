"""Histories of changes of direction in memory: meddled with, and with topics that are given up."""

from dataclasses import replace

import pytest

from ledger.changeover.plans import BlockerCode, ChangeoverKind, Choices
from ledger.changeover.scope import KnownMap, NotCopied, from_elsewhere
from ledger.errors import UsageError
from tests.support.changing_histories import Fate, ScopedLife, meddle
from tests.support.changing_pairs import (
    FAILOVER,
)
from tests.support.seen_pairs import SEEN, made, place
from tests.support.typed_plans import printed, typed

# -- Meddled with ----------------------------------------------------------------------------------


def test_what_happens_between_two_processes_is_found_by_the_next_one() -> None:
    """`make soak` has more of it."""
    found = "written at east before audit: orders: orders partition 0: an application has written"
    assert meddle("42").startswith(found)


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
    [recorded] = made(LEFT).recorded_blockers
    assert typed(printed(recorded.advice)).choices.left_out == ("refunds",)


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


def test_a_failover_counts_what_lies_behind_a_map_that_nobody_continued() -> None:
    life = ScopedLife.of({"refunds": Fate.DESELECTED}, behind=50)
    life.pair.lose_east(with_driver=False)
    blocked = life.made(ChangeoverKind.FAILOVER, FAILOVER)
    assert [one.code for one in blocked.blockers] == [BlockerCode.NOT_COPIED_ANY_MORE]
    assert "50 records known" in blocked.blockers[0].words
    assert all(row["target_offset"] is None for row in blocked.places if row["source_topic"] == "refunds")
    life.pair.end()


def test_choices_of_earlier_plans_are_read() -> None:
    plan = made(SEEN).plan
    content = plan.content()
    assert "left_out" not in content["choices"], "ids of earlier plans stay what they are"
    assert type(plan).of_content(content) == plan
    chosen = replace(plan, choices=Choices(left_out=("refunds",)))
    assert type(plan).of_content(chosen.content()) == chosen
