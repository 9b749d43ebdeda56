"""A driver writes nothing to what is promoted at its target, until it is demoted."""

import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.config.values import FlowConfig
from ledger.errors import FencedProducerError
from ledger.facts.acls import AclFollow
from ledger.facts.cut_offsets import Cut
from ledger.facts.direction import Demoted, DirectionChange, Directions, Promoted
from ledger.facts.fences import EpochMarker, Fence, MirrorShutOut
from ledger.facts.hand_overs import HandedOver, HandOverResult, HandOverUndone, TopicHandOver
from ledger.facts.identity import FlowProducer
from ledger.facts.operations import Why
from ledger.facts.permissions import topic_acl
from ledger.facts.requests import AcceptForeign, Request, Resume, Resync, SkipTo
from ledger.facts.state import LedgerState, OperationLog
from ledger.mirror.assignment import Assignment, PartitionResult, Stop, StopCause
from ledger.mirror.direction import DirectionWatch
from ledger.mirror.progress import RunEnd
from ledger.mirror.states import FlowProgress
from ledger.mirror.stops import StopEvents
from ledger.store.session import OperatorOperations
from ledger.topics.following import SettingsChange
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.support.memory_flows import PREFIX, Flow, follow
from tests.support.stepped_drivers import (
    Driver,
    Step,
    WhenAwaited,
    all_of_it,
    asked,
    copied,
    nothing,
    stopped,
    write,
)

WEST_OVER_EAST: dict[str, Any] = {"cluster": "west", "cluster_id": "W", "former": "east", "former_id": "E"}
PAIR, TOPIC, ANOTHER = None, ("east.t",), ("east.other",)


def change(driver: Driver, kind: type[DirectionChange], topics: tuple[str, ...] | None = PAIR) -> None:
    asked(driver, kind(**WEST_OVER_EAST, topics=topics), flow=None)


def run_again(driver: Driver, *steps: Step) -> Driver:
    """The next driver of the flow, until it has caught up or cannot go on."""
    again = Driver(list(steps), driver.flow, until_caught_up=True)
    again.run()
    return again


@pytest.mark.parametrize(
    ("given", "kept", "holds"),
    [(None, None, None), (3, None, 3), (None, 5, 5), (3, 5, 5), (5, 3, 5), (0, 1, 1)],
)
def test_of_the_cut_that_was_given_and_the_one_that_was_kept_the_later_counts(
    given: int | None, kept: int | None, holds: int | None
) -> None:
    """A driver that was started at a cut is at work still when applications have come and left again."""
    cuts = {str(place): Cut(str(place), (), place) for place in range(6)}
    changes = (
        Demoted(**WEST_OVER_EAST, topics=PAIR, cut_operation=None if kept is None else str(kept)),
        "by",
    )
    flow = FlowConfig(name="f", source="east", target="west", topics=("t",))
    watch = DirectionWatch(
        flow,
        cast(LedgerState, SimpleNamespace(cut=cuts.__getitem__)),
        None if given is None else cuts[str(given)],
        Directions((changes,)),
    )
    assert watch.cut_of("t") == (None if holds is None else cuts[str(holds)])


def stops(driver: Driver) -> list[str]:
    return [str(content["cause"]) for content in driver.flow.operations("partition_stopped")]


def resumed(driver: Driver) -> int:
    return len(driver.flow.operations("partition_resumed"))


def kinds(driver: Driver) -> list[object]:
    return [row["kind"] for row in driver.syncs()]


def then(count: int, act: Callable[[], None]) -> Step:
    """A task that copies so many records, while somebody acts."""

    def step(assignment: Assignment) -> PartitionResult:
        act()
        return copied(assignment, count)

    return step


@pytest.mark.parametrize("topics", [PAIR, TOPIC])
def test_a_promotion_stops_the_partition_after_the_facts_of_the_round_under_way(
    topics: tuple[str, ...] | None,
) -> None:
    driver = Driver(
        [then(3, lambda: change(driver, Promoted, topics))], until_caught_up=True, executor=WhenAwaited
    )
    write(driver, 9)
    summary = driver.run()
    assert driver.told[-2:] == ["copied", "partition_stopped"]
    assert (summary.end, [one.cause for one in summary.stopped]) == (RunEnd.NOT_CAUGHT_UP, ["promoted"])
    assert summary.stopped[0].message.endswith("applications write there; nothing was written")


def test_what_a_promotion_stops_and_a_demotion_continues_with_is_one_append_each() -> None:
    """A thousand of them would be a minute in which applications have nowhere to write."""
    driver = Driver([lambda one: copied(one, 3)] * 5)
    driver.flow.source("more", partitions=4)
    driver.run()
    change(driver, Promoted)
    run_again(driver)
    change(driver, Demoted)
    run_again(driver, *[all_of_it(0)] * 5)
    assert appends(driver, "partition_stopped") == [5]
    assert appends(driver, "partition_resumed") == [5]


def appends(driver: Driver, kind: str) -> list[int]:
    """How many rows of a kind each append has."""
    found = [row for row in driver.flow.ledger.rows("operations") if row["kind"] == kind]
    assert len({row["operation_id"] for row in found}) == len(found)
    return list(Counter((row["writer_epoch"], row["round"]) for row in found).values())


def test_what_is_promoted_elsewhere_stops_nothing() -> None:
    driver = Driver([all_of_it(9)], until_caught_up=True)
    write(driver, 9)
    change(driver, Promoted, ANOTHER)
    asked(
        driver, Promoted(cluster="east", cluster_id="E", former="west", former_id="W", topics=None), flow=None
    )
    assert driver.run().end is RunEnd.CAUGHT_UP
    assert stops(driver) == []


def test_the_other_topics_of_a_flow_are_copied() -> None:
    driver = Driver([all_of_it(4)], until_caught_up=True)
    driver.flow.source("other")
    write(driver, 4, "other")
    write(driver, 9)
    change(driver, Promoted, TOPIC)
    driver.run()
    assert [(one.source.topic, one.position.source_offset) for one in driver.assigned] == [("other", 0)]


def test_no_restart_lifts_it_and_a_demotion_does() -> None:
    driver = Driver([then(3, lambda: change(driver, Promoted))], until_caught_up=True)
    write(driver, 9)
    driver.run()
    again = run_again(driver)
    assert (again.assigned, stops(driver), resumed(driver)) == ([], ["promoted"], 0)
    change(driver, Demoted)
    [assignment] = run_again(driver, all_of_it(6)).assigned
    assert (assignment.position.source_offset, assignment.position.target_offset) == (3, 3)
    assert (stops(driver), resumed(driver)) == (["promoted"], 1)


@pytest.mark.parametrize("is_at_work", [True, False])
def test_what_stands_still_for_an_earlier_promotion_says_so_of_a_later_one(is_at_work: bool) -> None:
    """What proves that the flow has stopped is a row that names the promotion that holds."""

    def promote_again() -> None:
        change(driver, Demoted, TOPIC)
        change(driver, Promoted, ("east.t", "east.none"))

    driver = Driver([then(3, lambda: change(driver, Promoted, TOPIC))], until_caught_up=True)
    write(driver, 9)
    if is_at_work:
        driver.flow.source("other")
        write(driver, 2, "other")
        driver.steps = [*driver.steps, nothing, then(1, promote_again), all_of_it(1)]
        driver.__post_init__()
    driver.run()
    if not is_at_work:
        promote_again()
        run_again(driver)
    messages = [str(content["message"]) for content in driver.flow.operations("partition_stopped")]
    assert (len(messages), len(set(messages)), resumed(driver)) == (2, 2, 0)


def test_a_driver_at_work_continues_when_it_is_demoted() -> None:
    """Another topic keeps it at work meanwhile."""
    driver = Driver([])
    driver.flow.source("other")
    write(driver, 9)
    write(driver, 9, "other")
    by_topic: list[tuple[str, int]] = []
    acts = {1: lambda: change(driver, Promoted, TOPIC), 3: lambda: change(driver, Demoted, TOPIC)}

    def step(assignment: Assignment) -> PartitionResult:
        if assignment.source.topic == "other":
            acts.pop(sum(topic == "other" for topic, _ in by_topic), lambda: None)()
        by_topic.append((assignment.source.topic, assignment.position.source_offset))
        return copied(assignment, 1)

    driver.steps = [step] * 10
    driver.__post_init__()
    driver.run()
    assert by_topic.count(("t", 0)) == 1
    offsets = [offset for topic, offset in by_topic if topic == "t"]
    assert (offsets, sum(topic == "other" for topic, _ in by_topic)) == ([0, 1, 2, 3], 6)
    assert (stops(driver), resumed(driver)) == (["promoted"], 1)


@pytest.mark.parametrize(
    "request_",
    [
        Resume(topic=None),
        AcceptForeign(topic="t"),
        Resync(topic="t"),
        SkipTo(topic="t", partition=0, offset=5),
    ],
)
@pytest.mark.parametrize("cause", [None, StopCause.FOREIGN_WRITE])
def test_no_request_moves_it(request_: Request, cause: StopCause | None) -> None:
    """Whether it had stopped for another reason before or not."""
    driver = Driver([stopped(cause, 3) if cause else lambda one: copied(one, 3)])
    write(driver, 9)
    driver.run()
    before = kinds(driver)
    change(driver, Promoted)
    asked(driver, request_)
    again = run_again(driver)
    assert again.assigned == []
    assert kinds(driver) == before
    [receipt] = driver.flow.operations("receipt")
    assert receipt["result"] == "refused"
    assert "was promoted over east" in str(receipt["message"])
    assert stops(driver) == [str(cause or StopCause.PROMOTED)]


def test_another_stop_lasts_when_it_is_demoted() -> None:
    driver = Driver([stopped(StopCause.FOREIGN_WRITE, 3)])
    write(driver, 9)
    driver.run()
    change(driver, Promoted)
    run_again(driver)
    change(driver, Demoted)
    again = run_again(driver)
    assert again.assigned == []
    assert (stops(driver), resumed(driver)) == (["foreign_write"], 0)


def test_what_is_met_first_while_it_is_promoted_begins_when_it_is_demoted() -> None:
    driver = Driver([], until_caught_up=True)
    driver.flow.west.create_topic("east.t", partitions=1, replication_factor=1, configuration={})
    write(driver, 9)
    change(driver, Promoted)
    driver.run()
    assert (kinds(driver), stops(driver)) == ([], ["promoted"])
    change(driver, Demoted)
    again = run_again(driver, all_of_it(9))
    assert kinds(driver) == ["started", "copied"]
    assert again.assigned[0].position.source_offset == 0
    assert resumed(driver) == 1


def test_another_incarnation_at_the_target_is_judged_when_it_is_demoted() -> None:
    driver = Driver([lambda one: copied(one, 3)])
    write(driver, 9)
    driver.run()
    change(driver, Promoted)
    driver.flow.west.recreate_topic("east.t")
    run_again(driver)
    assert stops(driver) == ["promoted"]
    change(driver, Demoted)
    assert run_again(driver).assigned == []
    assert (kinds(driver), stops(driver)) == (["started", "copied"], ["promoted", "target_recreated"])


def test_no_topic_is_created_while_the_pair_is_promoted() -> None:
    driver = Driver([], until_caught_up=True)
    write(driver, 9)
    change(driver, Promoted)
    driver.run()
    assert "east.t" not in driver.flow.west.topics()
    change(driver, Demoted)
    run_again(driver, all_of_it(9))
    assert "east.t" in driver.flow.west.topics()


@pytest.mark.parametrize("is_at_work", [True, False])
def test_it_continues_with_another_producer_id_when_a_marker_has_shut_its_own_out(is_at_work: bool) -> None:
    """A driver that was at work all the time ends, for it writes with that id; nothing is written with it again."""
    driver = Driver([lambda one: copied(one, 3)])
    write(driver, 9)
    driver.run()
    change(driver, Promoted, TOPIC)
    [first] = ids(driver)
    if is_at_work:
        acts = [lambda: shut_out(driver, first.current), lambda: change(driver, Demoted, TOPIC)]
        driver.flow.source("other")
        write(driver, 9, "other")
        steps = [then(1, acts[0]), then(1, acts[1])]
        with pytest.raises(
            FencedProducerError, match="refuses the producer id of flow f at west; nothing was written"
        ):
            run_again(driver, *steps)
    else:
        shut_out(driver, first.current)
        change(driver, Demoted, TOPIC)
    [assignment] = [one for one in run_again(driver, *[nothing_left] * 2).assigned if one.source.topic == "t"]
    [second] = ids(driver)
    assert (second.former, second.current == first.current) == (frozenset({first.current}), False)
    assert assignment.producer == second
    assert (assignment.position.next_sequence, assignment.position.target_offset) == (0, 3)


def test_a_topic_that_was_promoted_before_it_began_begins_with_another_producer_id() -> None:
    """A marker lies there, and what the flow has copied before is promoted still."""
    driver = Driver([lambda one: copied(one, 3)])
    write(driver, 9)
    driver.run()
    [first] = ids(driver)
    change(driver, Promoted)
    shut_out(driver, first.current, "east.other")
    change(driver, Demoted, ANOTHER)
    driver.flow.source("other")
    write(driver, 2, "other")
    [assignment] = run_again(driver, nothing_left).assigned
    assert assignment.source.topic == "other"
    assert assignment.producer.former == {first.current}
    assert assignment.producer.current != first.current


def test_a_driver_that_starts_while_all_is_promoted_keeps_its_producer_id_until_it_may_write() -> None:
    """It might not be given another one: the mirror is denied what it would write."""
    driver = Driver([lambda one: copied(one, 3)])
    write(driver, 9)
    driver.run()
    change(driver, Promoted, TOPIC)
    [first] = ids(driver)
    shut_out(driver, first.current)
    assert run_again(driver).assigned == []
    assert (ids(driver), stops(driver)) == ([first], ["promoted"])
    change(driver, Demoted, TOPIC)
    [assignment] = run_again(driver, nothing_left).assigned
    [second] = ids(driver)
    assert (second.former, second.current == first.current) == (frozenset({first.current}), False)
    assert (assignment.producer.current, assignment.position.target_offset) == (second.current, 3)


def test_it_asks_for_its_producer_id_before_the_first_round_and_at_each_change_of_direction() -> None:
    """Its claim may be older than a marker, and it may have taken on nothing before the demotion."""
    answers = iter([frozenset[str](), frozenset[str]()])
    flow = FlowConfig(name="f", source="east", target="west", topics=("t",))
    watch = DirectionWatch(flow, cast(LedgerState, None), fenced_topics=lambda: next(answers))
    demotion = Demoted(**WEST_OVER_EAST, topics=TOPIC), "by anna"
    left = []
    for directions in (Directions(), Directions(), Directions((demotion,)), Directions((demotion,))):
        events = StopEvents("f", cast(OperationLog, None))
        watch.obey(directions, FlowProgress([]), events, copied=lambda: None)
        left.append(operator.length_hint(answers))
    assert left == [1, 1, 0, 0]


def test_it_needs_no_other_producer_id_while_the_target_is_promoted() -> None:
    """It might not be given one: the mirror is denied what it would write."""
    flow = FlowConfig(name="f", source="east", target="west", topics=("t",))
    watch = DirectionWatch(flow, cast(LedgerState, None), fenced_topics=lambda: frozenset(TOPIC))
    state = SimpleNamespace(
        pair=SimpleNamespace(target=SimpleNamespace(topic="east.t")), stop=Stop(StopCause.DENIED, "by a rule")
    )
    progress = cast(FlowProgress, SimpleNamespace(states=[state], target_topics=TOPIC))
    events = StopEvents("f", cast(OperationLog, None))
    promotion, elsewhere = (
        (Promoted(cluster="west", cluster_id="W", former="east", former_id="E", topics=topics), "by anna")
        for topics in (TOPIC, ("other",))
    )
    for rows in ((promotion,), (promotion, elsewhere)):
        watch.obey(Directions(rows), progress, events, copied=lambda: None)
    demotion = Demoted(**WEST_OVER_EAST, topics=TOPIC), "by anna"
    with pytest.raises(FencedProducerError):
        watch.obey(Directions((promotion, demotion)), progress, events, copied=lambda: None)


def nothing_left(assignment: Assignment) -> PartitionResult:
    """A task that copies all that there is."""
    return all_of_it(9 - assignment.position.source_offset)(assignment)


def ids(driver: Driver) -> list[FlowProducer]:
    """Of the flow at its target."""
    west = driver.flow.west
    return list(MemoryLedgerState(driver.flow.ledger).identities().producers(west.cluster_id()).values())


def shut_out(driver: Driver, producer_id: int, topic: str = "east.t") -> None:
    west = driver.flow.west
    marker = EpochMarker(
        flow="f", producer_id=producer_id, producer_epoch=1, topic=topic, topic_id="T", partition=0
    )
    shut = MirrorShutOut(
        cluster="west",
        cluster_id=west.cluster_id(),
        former="east",
        principal=None,
        flows={"f": 1},
        topics=(topic,),
        rules=(),
        markers=(marker,),
        proof=None,
    )
    asked(driver, shut, flow=None)


def test_settings_partitions_rules_and_deletions_do_not_follow() -> None:
    flow = Flow()
    flow.source("t", retention_ms="1000")
    topics = flow.topics(delete_topics=True, acls=AclFollow.READ)
    follow(topics)
    rule = topic_acl("t", "User:a", "read")
    flow.east.create_acls([rule])
    flow.east.change_settings("t", to_set={"retention.ms": "2000"}, to_remove=[])
    flow.east.add_partitions("t", total=3)
    before = flow.actions()
    pairs = topics.follow(
        written_topic_ids=frozenset(), hold=lambda _topic: Stop(StopCause.PROMOTED, "promoted")
    )
    assert [pair.target.topic for pair in pairs] == ["east.t"]
    assert flow.actions() == before
    assert flow.west.topic_acls() == frozenset()
    assert flow.west.topics()["east.t"].partitions == 1
    topics.follow(written_topic_ids=frozenset())
    assert flow.west.topic_acls() == {replace(rule, resource_name="east.t")}
    assert flow.west.topics()["east.t"].partitions == 3
    assert len(flow.actions()) > len(before)


def test_retention_that_is_held_is_left_at_the_target_and_not_followed_from_the_source() -> None:
    """Until it is known to be released; what else is set follows meanwhile."""
    flow = Flow()
    flow.source("t", retention_ms="1000", segment_ms="70")
    topics = flow.topics()
    follow(topics)
    log = OperatorOperations(MemoryFactLog(flow.ledger, flow.clock), operator="anna")

    def settings() -> dict[str, str | None]:
        own = flow.west.configurations(["east.t"])["east.t"]
        return {name: own.get(name) for name in ("retention.ms", "retention.bytes", "segment.ms")}

    for cluster, name, own in ((flow.west, "east.t", {}), (flow.east, "t", {"retention.ms": "1000"})):
        before = settings()
        change = SettingsChange({"retention.ms": "-1", "retention.bytes": "-1"})
        held = TopicHandOver.of(name, cluster.topics()[name].topic_id, change, own)
        if cluster is flow.west:
            held = replace(held, former={"retention.ms": "1000", "retention.bytes": None})
        asked = {"cluster": cluster.alias, "cluster_id": "C", "former": cluster.alias, "purpose": "retention"}
        held_by = log.record_parts(
            [HandedOver(**asked, topics=(held,), permissions=(), unknown=(), manual=())], Why()
        )
        cluster.change_settings(name, to_set=change.to_set, to_remove=[])
        flow.east.change_settings("t", to_set={"segment.ms": f"8{len(name)}"}, to_remove=[])
        follow(topics)
        mine = {"retention.ms": "-1", "retention.bytes": "-1"} if cluster is flow.west else {}
        assert settings() == {**before, **mine, "segment.ms": f"8{len(name)}"}, cluster.alias
        back = HandOverUndone(**asked, topics=(held,), permissions=(), handed_over=held_by, left=())
        undone = log.record_parts([back], Why())
        follow(topics)
        assert settings()["retention.ms"] == ("-1" if cluster is flow.west else "1000"), "it may not be done"
        done = HandOverResult(of="hand_over_undone", cluster=cluster.alias, failed=())
        log.record_parts([done], Why(operation_id=undone))
        follow(topics)
        assert settings()["retention.ms"] == ("1000" if cluster is flow.west else "-1"), (
            "as it is at the source"
        )


def test_what_a_fence_denies_at_the_source_nobody_is_denied_at_the_target() -> None:
    """What people have denied there follows."""
    flow = Flow()
    flow.source("t")
    topics = flow.topics(acls=AclFollow.READ)
    fenced = Fence(
        cluster="east",
        cluster_id="E",
        topic="t",
        topic_id="T",
        how="closed",
        proof="proven",
        denied_reading=("User:a",),
    )
    log = MemoryFactLog(flow.ledger, flow.clock)
    OperatorOperations(log, operator="anna").record(fenced, flow=None, reason=None)
    by_people = topic_acl("t", "User:b", "read", permission_type="deny")
    flow.east.create_acls([*fenced.rules, by_people])
    follow(topics)
    assert fenced.rules <= flow.east.topic_acls()
    assert flow.west.topic_acls() == {replace(by_people, resource_name="east.t")}


def test_directions_are_read_as_they_were_recorded() -> None:
    driver = Driver([])
    change(driver, Promoted, TOPIC)
    directions = MemoryLedgerState(driver.flow.ledger).directions()
    assert directions.promotion("east", "west", PREFIX.target_name("t")) is not None
    assert directions.promotion("east", "west", "other") is None


def test_applications_write_at_the_target_where_it_is_promoted_and_not_where_the_flow_waits_for_the_other() -> (
    None
):
    flow = FlowConfig(name="f", source="east", target="west", topics=("t",), opposite="back")
    watch = DirectionWatch(flow, cast(LedgerState, None))
    watch.directions = Directions(started={"back": 1})
    hold = watch.hold("east.t")
    assert hold is not None
    assert hold.cause is StopCause.OPPOSITE_HOLDS
    watch.directions = Directions(((Promoted(**WEST_OVER_EAST, topics=TOPIC), "by anna"),), {"back": 1})
    hold = watch.hold("east.t")
    assert hold is not None
    assert hold.cause is StopCause.PROMOTED
    assert "was promoted over east by anna" in hold.message
