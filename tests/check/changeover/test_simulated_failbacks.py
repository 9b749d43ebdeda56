"""A lost cluster is back with records that were never copied: applications go home, stay where they are, or are struck
again on the way. Over clusters in memory, with the program's own steps and everybody at work beside them."""

from collections.abc import Collection
from dataclasses import replace
from zlib import crc32

import pytest

from ledger.changeover.plans import ChangeoverKind, StepName, steps_of
from tests.support.changing_pairs import FAILOVER, GROUPS, SWITCHOVER, TOPICS, ChangingPair, in_ledger
from tests.support.operator_processes import OnceAtEach, ProcessEnded, begins

HOME = replace(SWITCHOVER, extras=("keep",), within=0)
BACK = ("west", "east")
Placed = tuple[str, int, str]


def is_telling(write: str) -> bool:
    """A third of the ends; `make soak` tries all. Here are none between steps (test_applying.py) or of groups."""
    is_of_groups = any(word in write for word in ("offsets_set", "sheet", "commits of billing"))
    return not (write.startswith("ledger: apply ") or is_of_groups) and crc32(write.encode()) % 3 == 0


def with_extras() -> tuple[ChangingPair, list[Placed]]:
    pair = ChangingPair()
    return pair, lose_and_return(pair)


def lose_and_return(pair: ChangingPair) -> list[Placed]:
    """East is lost with a driver that has not recorded its last two records, applications move to west, and east is
    back with three records that it alone has, which are returned."""
    pair.destination = pair.west
    pair.lose_east(with_driver=True)
    pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER))
    pair.return_of_east(extras=3)
    pair.destination = pair.east
    return [(*place, values[-1]) for place, values in pair.values(pair.east).items()]


def require_home(pair: ChangingPair, extras: Collection[Placed]) -> None:
    """Both sides have the same but for what stays at east, and groups have processed each record once."""
    require_mirrored(pair, extras)
    pair.end()


def require_mirrored(pair: ChangingPair, extras: Collection[Placed]) -> None:
    pair.schedule.spawn("supervisor", pair.forward.supervise)
    pair.until(lambda: pair.is_copied, "east is mirrored again")
    at_east, at_west = placed(pair, pair.east), placed(pair, pair.west)
    assert sorted(one for one in at_east if one not in extras) == sorted(at_west)
    for group in GROUPS:
        assert sorted(pair.processed[group]) == sorted(at_west), f"{group} has processed each record once"


def placed(pair: ChangingPair, cluster: object) -> list[Placed]:
    assert cluster in (pair.east, pair.west)
    values = pair.values(pair.east if cluster is pair.east else pair.west)
    return [(*place, one) for place, found in values.items() for one in found]


def test_a_failback_that_ends_behind_every_write_comes_home() -> None:
    pair, extras = with_extras()
    plan = pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK)
    ends = OnceAtEach(is_telling)
    operation_id = pair.apply_by_many(plan, behind=ends)
    assert len(ends.ended_at) > 8, ends.ended_at
    told = in_ledger(pair, operation_id)
    assert sorted(told["receipts"]) == sorted(steps_of(ChangeoverKind.FAILBACK, is_promoted=True))
    assert told["ended"]["figures"]["records_lost"] == 0
    assert told["directions"] == {("east", "west"): [], ("west", "east"): sorted(TOPICS)}
    require_home(pair, extras)


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


def test_a_failback_is_undone_until_applications_write_at_home() -> None:
    pair, extras = with_extras()
    plan = pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK)
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(before=begins(StepName.START_APPLICATIONS)))
    applied = pair.applied(plan)
    assert applied is not None
    pair.undo(applied.operation_id)
    told = in_ledger(pair, applied.operation_id)
    assert told["directions"] == {("east", "west"): sorted(TOPICS), ("west", "east"): []}
    assert not pair.produce("orders", 0), "east is fenced still"
    assert pair.produce("orders", 0, at=pair.west), "and applications write at west"
    pair.until(lambda: placed(pair, pair.west)[-1] in placed(pair, pair.east), "west is mirrored to east")
    assert not [one for one in placed(pair, pair.west) if one in extras]
    pair.end()


def test_the_promoted_cluster_is_lost_while_it_is_mirrored_back() -> None:
    pair, extras = with_extras()
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, stays=True), way=BACK))
    pair.stop_groups()
    pair.west.available = False
    pair.schedule.wait(3.0)
    moved = pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER, way=BACK))
    told = in_ledger(pair, moved)
    assert told["ended"]["figures"]["records_lost"] == 0
    assert told["directions"][("west", "east")] == sorted(TOPICS)
    at_east = [one for one in placed(pair, pair.east) if one not in extras]
    for group in GROUPS:
        assert sorted(pair.processed[group]) == sorted(at_east), f"{group} has processed each record once"
    pair.end()


def test_a_cluster_that_was_formatted_again_protects_the_one_that_took_over() -> None:
    pair = ChangingPair()
    pair.lose_east(with_driver=False)
    pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER))
    pair.drivers_end()
    pair.recorders.is_over = True  # they end where another cluster answers
    pair.east.format("formatted-again")
    pair.east.available = True
    plan = pair.plan(ChangeoverKind.PROTECT, replace(SWITCHOVER, within=0), way=BACK)
    pair.apply(plan)
    assert pair.produce("orders", 0, at=pair.west), "applications are at work at west"
    pair.until(lambda: pair.values(pair.east) == pair.values(pair.west), "all of it is at east")
    assert sum(map(len, pair.values(pair.east).values())) == 16
    pair.end()


def test_three_times_there_and_back() -> None:
    """What stays at east stays there for good: no later way back, and no way there, brings it anywhere."""
    pair, extras = ChangingPair(), list[Placed]()
    for trip in range(3):
        extras += lose_and_return(pair)
        pair.apply(pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK))
        require_mirrored(pair, extras)
        assert len(extras) == 3 * (trip + 1), "each time there are others"
    pair.end()


def test_the_promoted_cluster_is_lost_before_anybody_went_home_a_second_time() -> None:
    """Then what east has alone is what applications have: groups read it, and skip nothing. Twice they read what a dead
    driver had copied and nobody could pair with east since."""
    pair = ChangingPair()
    extras = lose_and_return(pair)
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK))
    require_mirrored(pair, extras)
    before = set(placed(pair, pair.west))
    extras += lose_and_return(pair)
    new = [one for one in placed(pair, pair.west) if one not in before]
    unpaired = {one for one in new if one in placed(pair, pair.east)}
    assert len(unpaired) == 2
    pair.stop_groups()
    pair.west.available = False
    pair.schedule.wait(3.0)
    moved = pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER, way=BACK))
    told = in_ledger(pair, moved)
    figures = told["ended"]["figures"]
    written_at_west_since = 3
    assert figures["records_at_least"] <= written_at_west_since <= figures["records_at_most"]
    at_east = placed(pair, pair.east)
    undecided = extras[3:]
    for group in GROUPS:
        here = [one for one in pair.processed[group] if one in at_east]
        assert set(here) == {one for one in at_east if one not in extras[:3]}, group
        assert set(undecided) <= set(here), "nobody has said that they stay unread"
        assert {one for one in here if here.count(one) > 1} == unpaired
    pair.end()
