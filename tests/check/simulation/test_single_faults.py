"""Whole flows, driver after driver, with one thing each that goes wrong."""

import pytest

from ledger.config.values import Policy, TargetMode
from ledger.errors import UnsafeError
from ledger.facts.requests import RequestKind
from ledger.mirror.assignment import StopCause
from tests.simulation.crash_points import CrashPoint
from tests.simulation.kafka.partition_log import Garbling
from tests.support.calm_flows import TOPIC, CalmFlow, times, values


@pytest.mark.fault(12, 32)
def test_heartbeats_after_a_loss_are_copied_though_copies_of_equal_ones_lie_there() -> None:
    """The driver dies with five unrecorded, retention at the source takes them, five new ones come."""
    flow = CalmFlow(crash=CrashPoint.TASKS_RETURNED)
    flow.write(*["up"] * 5)
    flow.run()
    before = times(flow.target())
    flow.write(*["up"] * 5)
    flow.source().delete_before(5)
    flow.run()
    assert times(flow.target()) == before + times(flow.source())
    assert flow.syncs() == [
        ("started", "earliest", 0, 0, 0, 0),
        ("lost", "retention", 0, 5, 0, 0),
        ("unpaired", "lost_source", 5, 5, 0, 5),
        ("copied", None, 5, 10, 5, 10),
    ]
    assert flow.stops() == {}
    assert flow.broken_invariants() == {}


def quiet_flow() -> CalmFlow:
    """A shared target whose retention passed what the flow wrote while only others wrote there."""
    flow = CalmFlow(mode=TargetMode.SHARED)
    flow.write("a", "b")
    flow.run()
    flow.write(*["theirs"] * 20, at=flow.west)
    flow.target().delete_before(22)
    flow.write("c")
    return flow


@pytest.mark.fault(83)
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_flow_that_was_quiet_for_longer_than_a_shared_target_keeps_goes_on(is_forgotten: bool) -> None:
    flow = quiet_flow()
    if is_forgotten:
        flow.schedule.jump(3 * 86_400.0)
        flow.west.expire_producers()
    flow.run()
    assert values(flow.target()) == ["c"]
    assert flow.syncs()[-2:] == [("unpaired", "retention", 2, 2, 2, 22), ("copied", None, 2, 3, 22, 23)]
    assert flow.stops() == {}
    assert flow.broken_invariants() == {}


@pytest.mark.fault(83)
def test_what_a_shared_target_still_has_of_the_flow_is_recovered() -> None:
    """Others' records between the recorded end and an unrecorded record of the flow have expired."""
    flow = CalmFlow(mode=TargetMode.SHARED, crash=CrashPoint.TASKS_RETURNED)
    flow.west.create_topic(TOPIC, partitions=1, replication_factor=1, configuration={})
    flow.write(*["theirs"] * 3, at=flow.west)
    flow.write("a", "b")
    flow.run()
    flow.target().delete_before(3)
    flow.run()
    assert values(flow.target()) == ["a", "b"]
    assert flow.syncs()[-2:] == [("unpaired", "retention", 0, 0, 0, 3), ("copied", None, 0, 2, 3, 5)]
    assert flow.broken_invariants() == {}


def backlog(*, mode: TargetMode, kept: int) -> CalmFlow:
    """Five records were copied and not recorded; the target's retention left the last `kept` of them."""
    flow = CalmFlow(mode=mode, crash=CrashPoint.TASKS_RETURNED)
    flow.write(*"abcde")
    flow.run()
    flow.target().delete_before(5 - kept)
    flow.write("f")
    flow.run()
    return flow


@pytest.mark.fault(83)
@pytest.mark.parametrize("request_kind", [RequestKind.ACCEPT_FOREIGN, RequestKind.RESYNC])
def test_an_exclusive_target_that_deleted_what_was_not_recorded_goes_on_when_asked(
    request_kind: RequestKind,
) -> None:
    flow = backlog(mode=TargetMode.EXCLUSIVE, kept=0)
    assert flow.stops() == {TOPIC: StopCause.TARGET_OUT_OF_RANGE}
    flow.ask(RequestKind.RESUME)
    flow.run()
    assert flow.stops() == {TOPIC: StopCause.TARGET_OUT_OF_RANGE}, "nobody has said that it may"
    flow.ask(request_kind, offset=None)
    flow.run()
    assert flow.stops() == {}
    assert values(flow.target()) == [*"abcdef"]
    assert flow.syncs()[-2:] == [("unpaired", "retention", 0, 0, 0, 5), ("copied", None, 0, 6, 5, 11)]
    assert flow.broken_invariants() == {}


@pytest.mark.fault(83)
@pytest.mark.parametrize("mode", list(TargetMode))
def test_what_is_left_of_unrecorded_records_is_told_and_copied_again(mode: TargetMode) -> None:
    """Which source records lay below it cannot be told, so all are copied; the sequence goes on behind the last."""
    flow = backlog(mode=mode, kept=2)
    if mode is TargetMode.EXCLUSIVE:
        flow.ask(RequestKind.ACCEPT_FOREIGN)
        flow.run()
    cause = "accepted" if mode is TargetMode.EXCLUSIVE else "lost_source"
    assert values(flow.target()) == [*"deabcdef"]
    assert flow.syncs()[-3:] == [
        ("unpaired", "retention", 0, 0, 0, 3),
        ("unpaired", cause, 0, 0, 3, 5),
        ("copied", None, 0, 6, 5, 11),
    ]
    assert [header.base_sequence for header in flow.target().headers()] == list(range(3, 11))
    assert flow.stops() == {}
    assert flow.broken_invariants() == {}


@pytest.mark.fault(84)
@pytest.mark.parametrize("garbling", list(Garbling))
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_batch_that_is_none_stops_its_partition_alone(side: str, garbling: Garbling) -> None:
    flow = CalmFlow(mode=TargetMode.SHARED, topics=("bad", "good"))
    for topic in ("bad", "good"):
        flow.west.create_topic(topic, partitions=1, replication_factor=1, configuration={})
        flow.write("theirs", topic=topic, at=flow.west)
        flow.write("a", topic=topic)
    log = (flow.east if side == "source" else flow.west).log("bad", 0)
    log.garbling = garbling
    flow.run()
    cause = StopCause.CORRUPT if side == "source" else StopCause.TARGET_CORRUPT
    assert flow.stops() == {"bad": cause}
    assert values(flow.target("good")) == ["theirs", "a"]
    assert values(flow.target("bad")) == ["theirs"]
    log.garbling = None
    flow.ask(RequestKind.RESUME, topic="bad")
    flow.run()
    assert flow.stops() == {}
    assert values(flow.target("bad")) == ["theirs", "a"]


@pytest.mark.fault(1)
def test_a_request_waits_for_a_partition_that_has_no_leader_when_the_driver_starts() -> None:
    """Done is said of a partition that goes on, not of one that the driver does not know yet."""
    flow = CalmFlow()
    flow.write("a")
    flow.run()
    flow.write("theirs", at=flow.west)
    flow.write("b")
    flow.run()
    assert flow.stops() == {TOPIC: "foreign_write"}
    flow.west.move_leader(TOPIC, 0, None)
    flow.ask(RequestKind.ACCEPT_FOREIGN)
    flow.run()
    assert flow.stops() == {TOPIC: "foreign_write"}
    assert flow.receipts() == []
    flow.west.move_leader(TOPIC, 0, flow.west.nodes[0])
    flow.run()
    assert flow.stops() == {}
    assert flow.receipts() == ["done"]
    assert values(flow.target()) == ["a", "theirs", "b"]


@pytest.mark.fault(33)
@pytest.mark.parametrize("waited_s", [0.0, 0.15, 0.4])
def test_a_driver_that_was_taken_over_answers_nothing(waited_s: float) -> None:
    """It has nothing to append, so it does not know yet; the driver that has the flow carries the request out."""
    flow = CalmFlow()
    flow.write("a")
    first = flow.start()
    flow.schedule.wait(2.0)
    flow.write("theirs", at=flow.west)
    flow.write("b")
    flow.schedule.wait(3.0)
    assert flow.stops() == {TOPIC: "foreign_write"}
    second = flow.start()
    flow.schedule.wait(2.0 + waited_s)
    flow.ask(RequestKind.ACCEPT_FOREIGN)
    flow.schedule.wait(60.0)
    assert flow.receipts() == ["done"]
    assert flow.stops() == {}
    assert values(flow.target()) == ["a", "theirs", "b"]
    flow.end(first, second)


@pytest.mark.fault(12, 32)
def test_a_driver_that_dies_after_a_loss_leaves_the_stop_that_its_policy_asks_for() -> None:
    flow = CalmFlow(crash=CrashPoint.FACTS_APPENDED, on_loss=Policy.STOP)
    flow.plan.is_over = True
    flow.write("a", "b")
    flow.run()
    flow.write("c", "d")
    flow.source().delete_before(3)
    flow.plan.is_over = False
    flow.run()
    assert flow.syncs()[-1][:2] == ("lost", "retention"), "the driver died behind the fact"
    flow.run()
    assert flow.stops() == {TOPIC: "lost"}
    assert values(flow.target()) == ["a", "b"]
    flow.ask(RequestKind.RESUME)
    flow.run()
    assert flow.stops() == {}
    assert values(flow.target()) == ["a", "b", "d"]


def test_a_flow_that_selects_nothing_does_not_end_as_if_all_had_been_copied() -> None:
    """It ends properly, and a driver that goes on waits for the topic."""
    flow = CalmFlow(topics=())
    with pytest.raises(UnsafeError, match="no topic of east is selected"):
        flow.catch_up()
    assert flow.ledger.rows("writers")[-1]["event"] == "released"
    driver = flow.start()
    flow.schedule.wait(3.0)
    assert not driver.actor.done
    flow.east.create_topic(TOPIC, partitions=1, replication_factor=1, configuration={})
    flow.write("a")
    flow.schedule.wait(30.0, lambda: TOPIC in flow.west.topic_by_name and values(flow.target()) == ["a"])
    flow.end(driver)
    flow.catch_up()
    assert values(flow.target()) == ["a"]


def lost_after_deletion(flow: CalmFlow) -> list[tuple[object, ...]]:
    return [row[:3] for row in flow.syncs() if row[0] == "superseded"]


@pytest.mark.fault(11, 16)
@pytest.mark.parametrize("is_at_work", [True, False])
def test_what_the_target_loses_of_a_topic_whose_source_was_deleted_is_superseded(is_at_work: bool) -> None:
    flow = CalmFlow(topics=(TOPIC, "others"), round_seconds=5.0)
    flow.write("a", "b")
    flow.run(12.0)
    driver = flow.start() if is_at_work else None
    flow.schedule.wait(3.0)
    flow.east.delete_topic(TOPIC)
    flow.schedule.wait(60.0)
    before = flow.stops()
    assert before == ({TOPIC: StopCause.SOURCE_TOPIC_GONE} if is_at_work else {})
    flow.target().lose_end(1)
    flow.schedule.wait(120.0)
    if driver is not None:
        flow.end(driver)
    for _ in range(2):
        flow.run(12.0)
    assert lost_after_deletion(flow) == [("superseded", "target_truncated", 1)], "said once"
    assert flow.stops() == before
    assert flow.broken_invariants() == {}
