"""A lost cluster is back with records that were never copied: applications go home, now or later.

Over clusters in memory, with the program's own steps and everybody at work beside them; more of them in `make soak`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

from ledger.changeover.plans import ChangeoverKind, steps_of
from ledger.facts.tables import CUT_OFFSETS, OFFSET_SYNCS, OPERATIONS, Filter
from tests.simulation.kafka.administered import topic_rule
from tests.simulation.ledger.rows import MemoryRows
from tests.support.changing_pairs import ADMIN, GROUPS, TOPICS, in_ledger
from tests.support.failbacks import (
    BACK,
    HOME,
    RECREATE,
    is_of_recreating,
    lose_west,
    placed,
    require_continued_by_a_new_plan,
    require_home,
    require_lost_comes_back,
    require_west_lost,
    with_deficits,
    with_extras,
)
from tests.support.operator_processes import OnceAtEach


def is_telling(write: str) -> bool:
    """An eighth of the ends. Here are none between steps (test_applying.py) or of groups."""
    is_of_groups = any(word in write for word in ("offsets_set", "sheet", "commits of billing"))
    return not (write.startswith("ledger: apply ") or is_of_groups) and crc32(write.encode()) % 8 == 0


def test_a_failback_that_ends_behind_every_write_comes_home() -> None:
    pair, extras = with_extras()
    plan = pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK)
    ends = OnceAtEach(is_telling)
    operation_id = pair.apply_by_many(plan, behind=ends)
    assert len(ends.ended_at) > 3, ends.ended_at
    told = in_ledger(pair, operation_id)
    assert sorted(told["receipts"]) == sorted(steps_of(ChangeoverKind.FAILBACK, is_promoted=True))
    assert told["ended"]["figures"]["records_lost"] == 0
    assert told["directions"] == {("east", "west"): [], ("west", "east"): sorted(TOPICS)}
    require_home(pair, extras)


def test_a_plan_asks_the_ledger_of_all_partitions_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """But of those that a dead driver has left unrecorded: each question opens all files of its table."""
    pair, _ = with_extras()
    asked: list[tuple[str, dict[str, Any]]] = []
    read = MemoryRows.rows

    def counted(rows: MemoryRows, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        asked.append((table, {column: value for column, comparison, value in filters if comparison == "="}))
        return read(rows, table, filters)

    monkeypatch.setattr(MemoryRows, "rows", counted)
    assert pair.failback_blockers(replace(HOME, extras=())).keys() == {"extras"}
    of_tables = Counter(table for table, _ in asked)
    assert {OFFSET_SYNCS.name, CUT_OFFSETS.name, OPERATIONS.name} <= of_tables.keys()
    of_one = [found for _, found in asked if {"topic", "source_topic", "partition"} & found.keys()]
    assert {(one["source_topic"], one["source_partition"]) for one in of_one} == {("orders", 0)}


def test_applications_stay_where_they_are_and_go_home_later_without_another_decision() -> None:
    pair, extras = with_extras()
    stay = pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, stays=True), way=BACK))
    assert list(in_ledger(pair, stay)["receipts"]) == ["check", "fence_target", "mirror_back", "catch_up"]
    assert in_ledger(pair, stay)["directions"] == {("east", "west"): sorted(TOPICS), ("west", "east"): []}
    assert pair.produce("orders", 1, at=pair.west), "applications are at work at west"
    pair.stop_groups()
    pair.consume(pair.west, dict.fromkeys(GROUPS, 1_000))
    home = pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, extras=()), way=BACK))
    assert in_ledger(pair, home)["receipts"]["mirror_back"] == {"is_new": False}
    require_home(pair, extras)


def test_extras_that_are_replicated_are_read_once_where_applications_are() -> None:
    pair, extras = with_extras()
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, extras=("replicate",)), way=BACK))
    assert [one for one in placed(pair, pair.west) if one in extras], "they are at west"
    require_home(pair, [])


def test_a_topic_that_is_created_again_gets_all_of_the_other_side() -> None:
    """What east alone had of it is lost with it, as it was said; of another one it stays."""
    pair, extras = with_extras()
    former, settings = pair.east.topics(), dict(pair.east.topic_by_name["orders"].configuration)
    choices = replace(HOME, extras=("users=keep", "recreate"))
    ends = OnceAtEach(lambda write: "extras_decided" in write or is_of_recreating(write))
    pair.apply_by_many(pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK), behind=ends)
    assert len(ends.ended_at) >= 4, ends.ended_at
    require_home(pair, [one for one in extras if one[0] == "users"])
    assert pair.values(pair.east)["orders", 0] == pair.values(pair.west)["orders", 0], "in the order of west"
    now = pair.east.topics()
    assert [name for name in sorted(former) if now[name].topic_id != former[name].topic_id] == ["orders"]
    assert pair.east.topic_by_name["orders"].configuration == settings


def test_what_else_would_be_lost_with_a_topic_is_given_up_by_name() -> None:
    """East holds what west has deleted since: nothing would have it then."""
    pair, _ = with_extras()
    pair.west.log("orders", 1).delete_before(2)
    found = pair.failback_blockers(RECREATE)
    assert found.keys() == {"lost_with_topic"}
    assert "orders partition 1: 2 offsets (0 to 1): 2 records" in found["lost_with_topic"]
    assert pair.failback_blockers(replace(RECREATE, given_up=("users",))).keys() == {"lost_with_topic"}
    assert pair.failback_blockers(replace(RECREATE, given_up=("orders",))) == {}
    assert pair.failback_blockers(replace(RECREATE, extras=("orders=keep", "recreate"))) == {}
    pair.end()


def test_who_may_not_create_a_topic_again_hears_it_before_anything_is_deleted() -> None:
    pair, _ = with_extras()
    for operation in ("delete", "create", "describe_configs"):
        right = topic_rule(ADMIN, operation, "*")
        pair.east.change_acls([right], remove=True)
        found = pair.failback_blockers(RECREATE)
        assert found.keys() == {"not_allowed"}
        assert f"{operation.upper()} on" in found["not_allowed"]
        assert pair.failback_blockers(HOME) == {}
        pair.east.change_acls([right])
    assert pair.failback_blockers(RECREATE) == {}
    pair.end()


def test_a_new_plan_continues_what_another_one_had_begun_to_create_again() -> None:
    """One topic is deleted, of the other one it is recorded."""
    require_continued_by_a_new_plan("delete topic")


def test_the_promoted_cluster_is_lost_before_anything_came_back() -> None:
    """The lost one has come back with all that it had: applications go there, with what it has alone."""
    pair, _ = with_extras()
    moved = lose_west(pair)
    require_west_lost(pair, moved)
    assert pair.produce("orders", 1), "east is open again"
    assert in_ledger(pair, moved)["directions"][("west", "east")] == sorted(TOPICS)
    pair.end()


def test_what_a_lost_cluster_has_lost_comes_back_in_order() -> None:
    """What was copied, what of a tail, and half of one."""
    require_lost_comes_back({("orders", 0): 4, ("orders", 1): 3, ("users", 0): 4}, OnceAtEach(is_telling))


def test_what_each_side_has_alone_comes_to_the_other_one() -> None:
    pair, _ = with_deficits({("orders", 0): 1, ("orders", 1): 2})
    choices = replace(HOME, extras=("replicate",), deficits=("orders=return",))
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK))
    require_home(pair, [])
