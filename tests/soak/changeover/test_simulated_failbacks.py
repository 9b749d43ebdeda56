"""Failbacks that meet a second disaster, are undone, or begin anew, over clusters in memory."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ledger.changeover.chained import adopt_chain
from ledger.changeover.fencing import fence_topics
from ledger.changeover.measures import AskedFence
from ledger.changeover.plans import ChangeoverKind, Choices, FenceChoice, StepName, steps_of
from ledger.changeover.seeing import make_plan
from ledger.context import Context
from ledger.errors import PreconditionError, UnsafeError, UsageError
from ledger.facts.acls import denial
from ledger.facts.fences import FenceHow
from ledger.facts.operations import Why
from ledger.facts.tables import CUT_OFFSETS, OFFSET_SYNCS, OPERATIONS, Filter
from ledger.facts.ways import Direction
from tests.simulation.kafka.administered import MIRROR, AdministeredCluster, topic_rule
from tests.simulation.ledger.rows import MemoryRows
from tests.support.changing_pairs import (
    ADMIN,
    AROUND,
    BACK_FROM_THERE,
    BILLING,
    FAILOVER,
    GROUPS,
    HOME_FROM_THERE,
    HOOKS,
    SWITCHOVER,
    THERE,
    TOPICS,
    ChangingPair,
    in_ledger,
    value_of,
)
from tests.support.compacted_pairs import lasts, lost_and_back
from tests.support.failbacks import (
    BACK,
    HOME,
    RECREATE,
    Placed,
    all_of,
    is_of_recreating,
    lose_and_return,
    lose_west,
    placed,
    require_continued_by_a_new_plan,
    require_home,
    require_lost_comes_back,
    require_mirrored,
    require_west_lost,
    with_extras,
)
from tests.support.operator_processes import OnceAtEach, ProcessEnded, begins


def undone_at_home(pair: ChangingPair, choices: Choices) -> str:
    """A failback is undone before applications start at east; its operation id."""
    plan = pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK)
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(before=begins(StepName.START_APPLICATIONS)))
    applied = pair.applied(plan)
    assert applied is not None
    pair.undo(applied.operation_id)
    return applied.operation_id


def test_a_failback_is_undone_until_applications_write_at_home() -> None:
    pair, extras = with_extras()
    told = in_ledger(pair, undone_at_home(pair, HOME))
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


def test_who_was_lost_before_anything_came_back_gets_what_the_other_one_has_since() -> None:
    """What west alone has stays there by decision, in front of all that east had alone and has written since."""
    pair, _ = with_extras()
    moved = lose_west(pair)
    require_west_lost(pair, moved)
    at_east = placed(pair, pair.east)
    alone = [one for one in placed(pair, pair.west) if one not in at_east]
    pair.west.available = True
    pair.schedule.wait(4.0)
    pair.destination = pair.west
    hooks: dict[StepName, str] = {step: HOOKS[step] for step in HOOKS if step != StepName.CATCH_UP}
    plan = pair.plan(ChangeoverKind.FAILBACK, HOME, way=("east", "west"), hooks=hooks)
    said: list[str] = []

    def waits(_step: StepName, words: str) -> None:
        said.append(words)
        assert len(said) < 200, said[-5:]
        if "no driver is at work: mirror-ledger run east-to-west" in words and len(starts) == 0:
            starts.append(words)
            pair.west.change_acls([topic_rule(MIRROR, "write", "*")])
            pair.schedule.spawn("supervisor", pair.forward.supervise)

    starts: list[str] = []
    home = pair.apply(plan, waits=waits)
    assert [one for one in said if "east-to-west: 2 records that nobody had recorded paired with east" in one]
    told = in_ledger(pair, home)
    assert told["ended"]["figures"]["records_lost"] == 0
    assert told["directions"] == {("east", "west"): sorted(TOPICS), ("west", "east"): []}
    pair.start_reverse()
    pair.until(lambda: placed(pair, pair.west)[-1] in placed(pair, pair.east), "west is mirrored to east")
    at_east, at_west = placed(pair, pair.east), placed(pair, pair.west)
    assert sorted(one for one in at_west if one not in alone) == sorted(at_east)
    for group in GROUPS:
        assert set(pair.processed[group]) == set(at_west), "what west alone has was read there before"
    pair.end()


def test_the_promoted_cluster_is_lost_when_the_way_back_is_open_and_nothing_came() -> None:
    """What was to stay at east unread lies in front of nothing that came back: groups read it."""
    pair, _ = with_extras()
    plan = pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK)
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(before=begins(StepName.CATCH_UP)))
    applied = pair.applied(plan)
    assert applied is not None
    pair.undo(applied.operation_id)
    require_west_lost(pair, lose_west(pair))
    assert pair.east.topic_by_name["orders"].configuration["retention.ms"] == "900"
    pair.end()


def _at_west_of_a_chain(*, with_driver: bool) -> ChangingPair:
    """East is lost, applications are at west, and all that west has goes on to north."""
    pair = ChangingPair(is_chain=True)

    def has_all(cluster: AdministeredCluster) -> bool:
        return TOPICS.keys() <= cluster.topics().keys() and pair.values(cluster) == pair.values(pair.west)

    pair.until(lambda: has_all(pair.north), "all goes on to north")
    pair.lose_east(with_driver=with_driver)
    pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER))
    pair.until(lambda: has_all(pair.north), "what is written at west as well")
    pair.schedule.wait(3.0)
    return pair


def test_a_third_cluster_takes_over_where_the_promoted_one_is_lost_and_that_one_comes_home() -> None:
    """All goes on from west to north. What west alone has is decided when it is back, by flows between these two."""
    pair = _at_west_of_a_chain(with_driver=False)
    pair.drivers[THERE].end_at_once()
    assert pair.produce("orders", 0, at=pair.west)
    pair.schedule.wait(3.0)
    alone = ("orders", 0, pair.values(pair.west)["orders", 0][-1])
    pair.stop_groups()
    pair.west.available = False
    pair.schedule.wait(3.0)
    pair.destination = pair.north
    moved = pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER, way=("west", "north")))
    figures = in_ledger(pair, moved)["ended"]["figures"]
    assert (figures["records_lost"], figures["records_at_least"]) == (1, 1)
    at_north = all_of(pair.values(pair.north))
    for group in GROUPS:
        assert sorted(pair.processed[group]) == sorted(at_north), f"{group} has processed each record once"
    pair.west.available = True
    pair.let_north_give_back()
    pair.schedule.wait(3.0)
    pair.destination = pair.west
    hooks: dict[StepName, str] = {step: HOOKS[step] for step in HOOKS if step != StepName.CATCH_UP}
    plan = pair.plan(ChangeoverKind.FAILBACK, HOME, way=("north", "west"), hooks=hooks)
    said: list[str] = []

    def waits(_step: StepName, words: str) -> None:
        said.append(words)
        assert len(said) < 200, said[-5:]
        if "grant the mirror WRITE on orders, users of west" in words:
            denied = [one for one in pair.west.acls if (one.permission_type, one.entity) == ("deny", MIRROR)]
            pair.west.change_acls(denied, remove=True)
        if "no driver is at work" in words and not starts:
            starts.append(words)
            pair.schedule.spawn("supervisor", pair.drivers[BACK_FROM_THERE].supervise)

    starts: list[str] = []
    pair.apply(plan, waits=waits)
    at_west = all_of(pair.values(pair.west))
    for group in GROUPS:
        assert sorted(pair.processed[group]) == sorted(one for one in at_west if one != alone)
    pair.east.available = True
    pair.destination = pair.east
    assert set(pair.failback_blockers(HOME)) == {"deficits"}
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, deficits=("return",)), way=BACK))
    at_east, at_west = all_of(pair.values(pair.east)), all_of(pair.values(pair.west))
    assert set(at_west) - set(at_east) == {alone}, "what north has brought to west has come, too"
    for group in GROUPS:
        assert sorted(pair.processed[group]) == sorted(at_east), "each once"
    pair.end()


@pytest.mark.parametrize("write", ["topic_recreated", "delete topic", "create topic"])
def test_a_new_plan_continues_what_another_one_had_begun_to_create_again(write: str) -> None:
    require_continued_by_a_new_plan(write)


@pytest.mark.parametrize("with_driver", [False, True])
def test_the_first_cluster_comes_back_to_a_third_one_that_took_over_from_the_second(
    with_driver: bool,
) -> None:
    """West is lost for good. What east alone has is decided against north, and all else of north comes to east once."""
    pair = _at_west_of_a_chain(with_driver=with_driver)
    pair.drivers_end()
    pair.stop_groups()
    pair.west.available = False
    pair.schedule.wait(3.0)
    pair.destination = pair.north
    pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER, way=("west", "north")))
    pair.east.available = True
    before = pair.values(pair.east)
    for number in range(3):
        assert pair.produce(*[("orders", 0), ("orders", 1), ("users", 0)][number]), "extras"
    extras = [
        (*place, one)
        for place, found in pair.values(pair.east).items()
        for one in found
        if one not in before[place]
    ]
    assert len(extras) == 3
    pair.give_west_up()
    pair.schedule.wait(3.0)
    with pair.outside.seen_by(pair.outside.process()):
        context = Context(pair.config, Why("west is given up"))
        for kind in (ChangeoverKind.FAILBACK, ChangeoverKind.PROTECT):
            with pytest.raises(UsageError, match=f"mirror-ledger adopt {AROUND} --through west"):
                make_plan(context, kind, Direction("north", "east"), HOME, {})
        words = adopt_chain(context, AROUND, "west")
        assert f"{AROUND}: 12 records of 3 partitions of east came to north through west" in words
        with pytest.raises(PreconditionError, match="has not begun with"):
            adopt_chain(context, AROUND, "west")
    pair.destination = pair.east
    assert pair.failback_blockers(replace(HOME, extras=()), away="north").keys() == {"deficits", "extras"}
    hooks: dict[StepName, str] = {step: HOOKS[step] for step in HOOKS if step != StepName.CATCH_UP}
    plan = pair.plan(
        ChangeoverKind.FAILBACK, replace(HOME, deficits=("return",)), way=("north", "east"), hooks=hooks
    )
    said: list[str] = []

    def waits(_step: StepName, words: str) -> None:
        said.append(words)
        assert len(said) < 200, said[-5:]
        if "grant the mirror WRITE on orders, users of east" in words:
            pair.let_mirror_write_at_east()
        if "no driver is at work" in words and not starts:
            starts.append(words)
            pair.schedule.spawn("supervisor", pair.drivers[HOME_FROM_THERE].supervise)

    starts: list[str] = []
    pair.apply(plan, waits=waits)
    pair.schedule.spawn("supervisor", pair.drivers[AROUND].supervise)
    if with_driver:  # the originals of what nobody could pair with east stay there, and the copies come back
        extras += [("orders", 0, "east-12"), ("orders", 0, "east-13")]

    def at_home() -> list[Placed]:
        return sorted((Counter(all_of(pair.values(pair.east))) - Counter(extras)).elements())

    pair.until(lambda: at_home() == sorted(all_of(pair.values(pair.north))), "east is mirrored to north")
    assert len(at_home()) == 21 + 2 * with_driver
    for group in GROUPS:
        assert sorted(pair.processed[group]) == at_home(), f"{group} has processed each record once"
    pair.end()


# -- What is found on the way ----------------------------------------------------------------------


def test_a_hook_that_closed_the_cluster_that_was_left_keeps_no_failover_from_it() -> None:
    """Only people can open what it has stopped, and they are reminded: nothing answers any more that it could ask."""
    pair, _ = with_extras()
    fence_east(pair, tuple(TOPICS), FenceHow.CLOSED)
    by_hook = replace(HOME, fence=FenceChoice.HOOK, unproven="the hook says so")
    home = pair.plan(
        ChangeoverKind.FAILBACK, by_hook, way=BACK, hooks={**HOOKS, StepName.FENCE: "stop-producers"}
    )
    pair.apply(home)
    pair.drivers_end()
    pair.stop_groups()
    pair.destination = pair.west
    pair.east.available = False
    pair.schedule.wait(3.0)
    moved = pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER))
    receipts = [one["content"] for one in pair.rows("operations", moved) if one["kind"] == "step_done"]
    assert [one for one in receipts if "what a hook has stopped there is to be started again" in one]
    pair.end()


def test_what_was_fenced_before_is_held_and_closed_for_reading_as_well() -> None:
    pair, extras = with_extras()
    fence_east(pair, ("orders",), FenceHow.CLOSED)
    plan = pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK)
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(before=begins(StepName.MIRROR_BACK)))
    settings = {name: pair.east.topic_by_name[name].configuration["retention.ms"] for name in TOPICS}
    assert settings == dict.fromkeys(TOPICS, "-1")
    denied = {
        (one.resource_name, one.entity, one.operation)
        for one in pair.east.acls
        if one.permission_type == "deny" and one.operation == "read"
    }
    assert denied == {(name, BILLING, "read") for name in TOPICS}
    pair.apply(plan)
    assert pair.east.topic_by_name["orders"].configuration["retention.ms"] == "900"
    require_home(pair, extras)


def test_a_topic_that_applications_created_meanwhile_goes_home_with_them() -> None:
    """Also where a failback before had promoted all of the cluster that is back."""
    pair = ChangingPair(("fresh",))
    extras = lose_and_return(pair)
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK))
    require_mirrored(pair, extras)
    extras += lose_and_return(pair)
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, stays=True), way=BACK))
    pair.east.change_acls([topic_rule(MIRROR, "create", "*")])
    pair.west.create_topic("fresh", partitions=1, replication_factor=1, configuration={})
    pair.west.change_acls([denial("fresh", MIRROR)])  # whom a rule lets write no fence closes a topic for
    pair.append_past_all_rules(pair.west, "fresh", 0)
    pair.until(lambda: "fresh" in pair.east.topics(), "it is mirrored back")
    pair.until(lambda: len(pair.east.log("fresh", 0).readable()) == 1, "with what it has")
    moved = pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, extras=()), way=BACK))
    assert in_ledger(pair, moved)["ended"]["figures"]["records_lost"] == 0
    require_home(pair, extras)


def test_a_process_that_ended_before_it_opened_what_stops_the_mirror_is_continued() -> None:
    pair, _ = with_extras()
    shut = replace(HOME, stays=True, fence=FenceChoice.SHUT, producers_stopped=True)
    plan = pair.plan(ChangeoverKind.FAILBACK, shut, way=BACK)
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(behind=lambda write: "way_back_opened" in write))
    pair.apply(plan)
    limits = {pair.east.topic_by_name[name].configuration.get("max.message.bytes") for name in TOPICS}
    assert "78" not in limits
    pair.end()


def test_nothing_is_protected_while_nobody_copies() -> None:
    pair, _ = with_extras()
    hooks: dict[StepName, str] = {step: HOOKS[step] for step in HOOKS if step != StepName.CATCH_UP}
    few = replace(HOME, stays=True, within=1_000)
    plan = pair.plan(ChangeoverKind.FAILBACK, few, way=BACK, hooks=hooks)
    said: list[str] = []

    def waits(_step: StepName, words: str) -> None:
        said.append(words)
        if "grant the mirror WRITE on orders, users of east" in words:
            pair.let_mirror_write_at_east()
        if "no driver is at work: mirror-ledger run west-to-east" in words:
            pair.start_reverse()

    pair.apply(plan, waits=waits)
    assert [one for one in said if "no driver is at work" in one], said
    assert pair.reverse.state.positions("west-to-east") != []
    pair.end()


def test_groups_are_waited_for_though_a_process_ended_behind_what_it_had_replicated() -> None:
    pair, _ = with_extras()
    pair.do_consumers_read = False
    choices = replace(HOME, extras=("replicate",), groups_seconds=3.0)
    plan = pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK)
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(before=lambda write: "extras_decided" in write))
    moved = pair.apply(plan)
    assert in_ledger(pair, moved)["receipts"]["catch_up"]["groups_before_extras"] == sorted(GROUPS)
    pair.end()


def test_a_topic_that_was_deleted_at_both_sides_is_no_concern() -> None:
    pair = ChangingPair(("old",))
    for cluster in (pair.east, pair.west):
        cluster.create_topic("old", partitions=1, replication_factor=1, configuration={})
    pair.append_past_all_rules(pair.east, "old", 0)
    pair.until(lambda: len(pair.west.log("old", 0).readable()) == 1, "it is copied")
    pair.schedule.wait(2.0)
    pair.recorders.record_all()
    for cluster in (pair.east, pair.west):
        cluster.delete_topic("old")
    pair.schedule.wait(5.0)
    pair.recorders.record_all()
    extras = lose_and_return(pair)
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK))
    require_home(pair, extras)


def test_who_switched_over_switches_back() -> None:
    """Nothing was left where applications came from: there is nothing to decide."""
    pair = ChangingPair()
    pair.apply(pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER))
    with pytest.raises(UsageError, match="mirror-ledger plan switchover --from west --to east"):
        pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK)
    with pytest.raises(UsageError, match="plan failback --from west --to east --stop-before switch"):
        pair.plan(ChangeoverKind.PROTECT, SWITCHOVER, way=BACK)
    pair.end()


def fence_east(pair: ChangingPair, topics: tuple[str, ...], how: FenceHow) -> None:
    with pair.outside.seen_by(pair.outside.process()):
        asked = AskedFence(cluster="east", topics=topics, how=how)
        fence_topics(Context(pair.config, Why("it is back")), asked, lambda _words: None)


@pytest.mark.parametrize(
    "lost",
    [
        {("orders", 1): 2},
        {("orders", 0): 2},
        {("orders", 0): 1},
        {("orders", 0): 4, ("orders", 1): 3, ("users", 0): 4},
    ],
    ids=["copied", "tail", "half of a tail", "more"],
)
def test_what_a_lost_cluster_has_lost_comes_back_in_order(lost: dict[tuple[str, int], int]) -> None:
    require_lost_comes_back(lost, OnceAtEach())


# -- Topics that are created again -----------------------------------------------------------------


def is_of_recreating_or_a_flow(write: str) -> bool:
    return is_of_recreating(write) or "offset_syncs" in write or "extras_decided" in write or "cut" in write


@pytest.mark.parametrize("is_before", [True, False])
def test_processes_that_end_while_topics_are_created_again_lose_nothing_of_west(is_before: bool) -> None:
    """The ids of the topics are no longer those of the plan, whoever continues."""
    pair, extras = with_extras()
    plan = pair.plan(ChangeoverKind.FAILBACK, RECREATE, way=BACK)
    ends = OnceAtEach(is_of_recreating_or_a_flow)
    if is_before:
        pair.apply_by_many(plan, before=ends)
    else:
        pair.apply_by_many(plan, behind=ends)
    assert len(ends.ended_at) > 4, ends.ended_at
    require_home(pair, [], given_up=extras)
    assert not {*placed(pair, pair.east)} & {*extras}


def test_what_groups_had_read_where_a_topic_was_deleted_is_no_place_in_the_new_one() -> None:
    """They come home behind what they have read at west, also where they had read what was deleted."""
    pair, extras = with_extras()
    pair.stop_groups()
    pair.consume(pair.east, {"audit": 1_000})
    pair.schedule.wait(3.0)
    pair.recorders.record_all()
    pair.stop_groups()
    pair.consume(pair.west, dict.fromkeys(GROUPS, 1_000))
    read_at_east = [one for one in pair.processed["audit"] if one in extras]
    assert sorted(read_at_east) == sorted(extras)
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, RECREATE, way=BACK))
    pair.schedule.spawn("supervisor", pair.forward.supervise)
    pair.until(lambda: pair.is_copied, "east is mirrored again")
    assert sorted(placed(pair, pair.east)) == sorted(placed(pair, pair.west))
    for group in GROUPS:
        assert set(pair.processed[group]) >= set(placed(pair, pair.west)), f"{group} has skipped nothing"
    pair.end()


def test_what_is_salvaged_before_its_topic_is_deleted_is_at_west() -> None:
    pair, extras = with_extras()
    pair.west.change_acls([topic_rule(MIRROR, "create", "*")])
    choices = replace(HOME, extras=("salvage-recreate",))
    ends = OnceAtEach(is_of_recreating)
    pair.apply_by_many(pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK), behind=ends)
    require_home(pair, [], given_up=extras)
    salvaged = [
        (name, number, value_of(one))
        for name, count in TOPICS.items()
        for number in range(count)
        for one in pair.west.log(f"{name}.salvaged", number).readable()
    ]
    assert sorted(salvaged) == sorted(extras)


def test_who_gives_up_going_home_is_mirrored_to_the_topics_that_were_created_again() -> None:
    """And goes home later without another decision."""
    pair, extras = with_extras()
    undone_at_home(pair, RECREATE)
    assert pair.produce("orders", 0, at=pair.west), "applications write at west"
    pair.until(lambda: placed(pair, pair.west)[-1] in placed(pair, pair.east), "west is mirrored to east")
    pair.stop_groups()
    pair.consume(pair.west, dict.fromkeys(GROUPS, 1_000))
    ids = {name: topic.topic_id for name, topic in pair.east.topics().items()}
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, extras=()), way=BACK))
    require_home(pair, [], given_up=extras)
    assert {name: topic.topic_id for name, topic in pair.east.topics().items()} == ids


def test_twice_there_and_back_with_topics_that_are_created_again() -> None:
    pair = ChangingPair()
    ids, lost = set[str](), list[Placed]()
    for trip in range(2):
        lost += lose_and_return(pair)
        pair.apply(pair.plan(ChangeoverKind.FAILBACK, RECREATE, way=BACK))
        require_mirrored(pair, [], lost)
        ids |= {topic.topic_id for topic in pair.east.topics().values()}
        assert len(ids) == len(TOPICS) * (trip + 1)
    pair.end()


def test_a_compacted_topic_that_is_created_again_has_of_each_key_what_west_has_last() -> None:
    """Also of those that east alone had written, and whatever tombstones a cleaner has removed."""
    pair = lost_and_back(lasts_ms=1_000)
    pair.west.log("users", 0).compact(pair.west.log("users", 0).end)
    choices = replace(HOME, extras=("users=recreate", "keep"))
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK))
    assert lasts(pair.east) == lasts(pair.west)
    assert lasts(pair.east)[b"b"] == "newer-b"
    pair.end()


def test_a_process_that_ended_when_a_topic_was_created_again_opens_what_stops_the_mirror() -> None:
    pair, _ = with_extras()
    shut = replace(RECREATE, stays=True, fence=FenceChoice.SHUT, producers_stopped=True)
    plan = pair.plan(ChangeoverKind.FAILBACK, shut, way=BACK)
    ends = OnceAtEach(lambda write: "topic_recreated" in write)
    pair.apply_by_many(plan, behind=ends)
    assert len(ends.ended_at) >= 1
    assert "78" not in {
        pair.east.topic_by_name[name].configuration.get("max.message.bytes") for name in TOPICS
    }
    assert sorted(placed(pair, pair.east)) == sorted(placed(pair, pair.west))
    pair.end()


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


def test_a_group_that_has_not_read_what_stays_at_west_is_not_taken_home_before_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = ChangingPair()
    read = pair.consume

    def read_little(at: AdministeredCluster, most: Mapping[str, int]) -> None:
        read(at, most if at is pair.east else dict.fromkeys(most, 1))

    monkeypatch.setattr(pair, "consume", read_little)
    extras = lose_and_return(pair, {("users", 0): 2})
    left = [one for one in pair.taken if one[0] == "users" and one not in placed(pair, pair.east)][:2]
    pair.do_consumers_read = False
    choices = replace(HOME, deficits=("keep",), groups_seconds=3.0)
    plan = pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK)
    with pytest.raises(UnsafeError, match=r"'?audit'? has not read what stays at west alone"):
        pair.apply(plan)
    pair.stop_groups()
    monkeypatch.undo()
    pair.consume(pair.west, dict.fromkeys(GROUPS, 1_000))
    pair.apply(plan)
    require_home(pair, extras, left=left)


@pytest.mark.parametrize("is_before", [True, False])
def test_processes_that_end_at_every_write_of_replicating_copy_nothing_twice(is_before: bool) -> None:
    pair, _ = with_extras()
    plan = pair.plan(ChangeoverKind.FAILBACK, replace(HOME, extras=("replicate",)), way=BACK)
    asked = ("flow:east-to-west", "mirror_let_in", "mirror_shut_out")
    ends = OnceAtEach(lambda write: any(word in write for word in asked))
    if is_before:
        pair.apply_by_many(plan, before=ends)
    else:
        pair.apply_by_many(plan, behind=ends)
    assert len(ends.ended_at) > 4, ends.ended_at
    assert any("mirror_shut_out" in write for write in ends.ended_at)
    require_home(pair, [])


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


def test_the_promoted_cluster_is_lost_before_anything_came_back() -> None:
    """The lost one has come back with all that it had: applications go there, with what it has alone."""
    pair, _ = with_extras()
    moved = lose_west(pair)
    require_west_lost(pair, moved)
    assert pair.produce("orders", 1), "east is open again"
    assert in_ledger(pair, moved)["directions"][("west", "east")] == sorted(TOPICS)
    pair.end()


def test_a_failback_that_ends_behind_every_write_comes_home() -> None:
    pair, extras = with_extras()
    plan = pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK)
    ends = OnceAtEach()
    operation_id = pair.apply_by_many(plan, behind=ends)
    assert len(ends.ended_at) > 30, ends.ended_at
    told = in_ledger(pair, operation_id)
    assert sorted(told["receipts"]) == sorted(steps_of(ChangeoverKind.FAILBACK, is_promoted=True))
    assert told["ended"]["figures"]["records_lost"] == 0
    assert told["directions"] == {("east", "west"): [], ("west", "east"): sorted(TOPICS)}
    require_home(pair, extras)
