"""A source that comes back from an older copy of its folders: other records under the same epochs and offsets."""

from copy import deepcopy
from typing import Any

import pytest

from ledger.config.values import Policy, TargetMode
from ledger.facts.requests import RequestKind
from tests.simulation.crash_points import CrashPoint
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.calm_flows import TOPIC, CalmFlow, values

FIRST = [f"first-{n}" for n in range(10)]
OTHERS = [f"other-{n}" for n in range(10)]


def put_back(flow: CalmFlow, kept: PartitionLog) -> None:
    """Its brokers are stopped for that."""
    flow.east.available = False
    flow.schedule.wait(2.0)
    flow.east.topic_by_name[TOPIC].logs[0] = kept
    flow.east.available = True


def copied_beyond_a_copy(policy: Policy, kept: int = 6) -> tuple[CalmFlow, PartitionLog]:
    """Of ten records that were copied the copy has some."""
    flow = CalmFlow(on_source_truncated=policy)
    flow.write(*FIRST[:kept])
    flow.run()
    copy = deepcopy(flow.source())
    flow.write(*FIRST[kept:])
    flow.run()
    assert values(flow.target()) == FIRST
    return flow, copy


@pytest.mark.fault(10)
@pytest.mark.parametrize("kept", [0, 1, 6, 9])
def test_a_driver_that_begins_finds_that_the_source_has_other_records_at_the_same_offsets(kept: int) -> None:
    flow, copy = copied_beyond_a_copy(Policy.STOP, kept)
    put_back(flow, copy)
    flow.write(*OTHERS[: 10 - kept], "behind")
    flow.run()
    assert flow.stops() == {TOPIC: "source_truncated"}
    assert values(flow.target()) == FIRST
    assert flow.syncs()[-1][:4] == ("superseded", "source_truncated", kept, 10)
    flow.ask(RequestKind.RESUME)
    flow.run()
    assert values(flow.target())[10:] == values(flow.source())[kept:]
    assert flow.stops() == {}
    assert flow.broken_invariants() == {}


@pytest.mark.fault(10)
@pytest.mark.parametrize("kept", [7, 8])
def test_a_source_that_ends_below_what_was_copied_is_found_though_nobody_writes_to_it(kept: int) -> None:
    """Also where the record that is compared first would lie behind its end."""
    flow, copy = copied_beyond_a_copy(Policy.CONTINUE, kept)
    put_back(flow, copy)
    flow.run()
    assert flow.syncs()[-1][:4] == ("superseded", "source_truncated", kept, 10)
    flow.write(*OTHERS)
    flow.run()
    assert values(flow.target()) == [*FIRST, *OTHERS]
    assert flow.broken_invariants() == {}


@pytest.mark.fault(10)
def test_a_driver_at_work_finds_it_when_the_source_is_back() -> None:
    flow, copy = copied_beyond_a_copy(Policy.CONTINUE)
    driver = flow.start()
    flow.schedule.wait(5.0)
    flow.east.available = False
    flow.schedule.wait(5.0)
    flow.east.topic_by_name[TOPIC].logs[0] = copy
    flow.write(*OTHERS)
    flow.east.available = True
    flow.schedule.wait(10.0)
    flow.end(driver)
    assert values(flow.target()) == [*FIRST, *OTHERS]
    assert flow.stops() == {}
    assert flow.broken_invariants() == {}


@pytest.mark.fault(10)
def test_a_paused_partition_is_compared_when_it_goes_on() -> None:
    flow, copy = copied_beyond_a_copy(Policy.CONTINUE)
    driver = flow.start()
    flow.schedule.wait(5.0)
    flow.ask(RequestKind.PAUSE, partition=None)
    flow.schedule.wait(5.0)
    put_back(flow, copy)
    flow.write(*OTHERS)
    flow.ask(RequestKind.RESUME, partition=None)
    flow.schedule.wait(10.0)
    flow.end(driver)
    assert values(flow.target()) == [*FIRST, *OTHERS]
    assert flow.broken_invariants() == {}


@pytest.mark.fault(10)
def test_records_of_a_dead_driver_that_the_source_has_no_more_stay_told() -> None:
    flow = CalmFlow(on_source_truncated=Policy.CONTINUE, crash=CrashPoint.TASKS_RETURNED)
    flow.plan.is_over = True
    flow.write(*FIRST[:4])
    flow.run()
    copy = deepcopy(flow.source())
    flow.write(*FIRST[4:6])
    flow.run()
    flow.plan.is_over = False
    flow.write(*FIRST[6:])
    flow.run()
    put_back(flow, copy)
    flow.write(*OTHERS)
    flow.run()
    assert values(flow.target()) == [*FIRST, *OTHERS]
    assert ("unpaired", "lost_source") in [row[:2] for row in flow.syncs()]
    assert flow.stops() == {}
    assert flow.broken_invariants() == {}


COMPACTED: Any = {"cleanup.policy": "compact"}
LOOKS_OTHERWISE = {
    "recompressed": {"compression.type": "gzip"},
    "times of the target": {"message.timestamp.type": "LogAppendTime"},
}


@pytest.mark.fault(10)
@pytest.mark.parametrize("settings", LOOKS_OTHERWISE.values(), ids=LOOKS_OTHERWISE)
def test_what_the_target_stores_otherwise_is_compared_by_its_records(settings: dict[str, str]) -> None:
    flow = CalmFlow(on_source_truncated=Policy.CONTINUE)
    flow.west.create_topic(TOPIC, partitions=1, replication_factor=1, configuration={})
    flow.west.alter_topic(TOPIC, settings)
    flow.write(*FIRST[:6])
    flow.run()
    copy = deepcopy(flow.source())
    flow.write(*FIRST[6:])
    flow.run()
    flow.run()
    assert flow.syncs()[-1][0] == "copied", "nothing differs yet"
    put_back(flow, copy)
    flow.write(*OTHERS)
    flow.run()
    assert values(flow.target()) == [*FIRST, *OTHERS]
    assert flow.broken_invariants() == {}


def write_keys(flow: CalmFlow, keys: str) -> None:
    for key in keys:
        now_ms = flow.schedule.now_ms()
        flow.source().append(application_batch([content(key.encode(), b"v")], [now_ms]), now_ms=now_ms)


@pytest.mark.fault(10, 19)
@pytest.mark.parametrize("is_restored", [False, True])
def test_where_a_cleaner_took_the_last_record_an_older_one_is_compared(is_restored: bool) -> None:
    """The last copied one has the key `b`, which comes again behind it."""
    flow = CalmFlow(on_source_truncated=Policy.CONTINUE, **COMPACTED)
    write_keys(flow, "stuvw")
    flow.run()
    copy = deepcopy(flow.source())
    write_keys(flow, "xyzab")
    flow.run()
    if is_restored:
        put_back(flow, copy)
        flow.schedule.jump(1.0)
        write_keys(flow, "xyzab")
    write_keys(flow, "bc")
    flow.source().compact(12)
    flow.run()
    superseded = [row[:4] for row in flow.syncs() if row[0] == "superseded"]
    assert superseded == ([("superseded", "source_truncated", 5, 10)] if is_restored else [])
    sent = [record.timestamp for record in flow.source().readable()]
    found = [record.timestamp for record in flow.target().readable()]
    assert set(sent) <= set(found)
    assert flow.stops() == {}
    assert flow.broken_invariants() == {}


@pytest.mark.fault(12, 20)
@pytest.mark.parametrize("kept", [2, 3, 16])
def test_markers_alone_that_retention_left_are_not_compared_again_and_again(kept: int) -> None:
    flow = CalmFlow()
    flow.write(*FIRST)
    for producer in range(20):
        flow.source().end_transaction(producer, 0, commit=True, now_ms=flow.schedule.now_ms())
    flow.run()
    flow.source().delete_before(30 - kept)
    flow.write("behind")
    flow.run()
    assert values(flow.target()) == [*FIRST, "behind"]
    assert flow.stops() == {}


@pytest.mark.fault(12)
@pytest.mark.parametrize("side", ["source", "target"])
def test_what_retention_took_is_not_compared_and_stops_nothing(side: str) -> None:
    """A marker lay behind it, so the first record there now begins where a gap of the map ends."""
    flow = CalmFlow(mode=TargetMode.SHARED)
    flow.write(*FIRST)
    flow.source().end_transaction(1, 0, commit=True, now_ms=flow.schedule.now_ms())
    flow.run()
    (flow.source() if side == "source" else flow.target()).delete_before(11)
    flow.write("behind")
    flow.run()
    assert flow.stops() == {}
    assert flow.findings() == (set() if side == "source" else {"source_not_compared"})
    assert values(flow.target())[-1:] == ["behind"]
    assert not [row for row in flow.syncs() if row[0] == "superseded"]


@pytest.mark.fault(12)
def test_what_is_not_compared_is_told_once_until_it_is_or_its_topic_is_gone() -> None:
    """A driver that compares nothing, for the partition is paused, leaves it as it was."""
    flow = CalmFlow(topics=(TOPIC, "other"))
    for topic in (TOPIC, "other"):
        flow.write(*FIRST, topic=topic)
    flow.run()
    for topic in (TOPIC, "other"):
        flow.target(topic).delete_before(10)
    flow.run()
    flow.ask(RequestKind.PAUSE, partition=None)
    flow.run()
    flow.ask(RequestKind.RESUME, partition=None)
    flow.write("behind")
    flow.run()
    told = [row["kind"] for row in flow.ledger.rows("operations") if row["kind"].startswith("finding_")]
    assert (flow.findings(), told) == ({"source_not_compared"}, ["finding_raised"] * 2)
    flow.run()
    assert flow.findings() == {"source_not_compared"}, "of the other one"
    flow.east.delete_topic("other")
    flow.run()
    flow.run()
    assert flow.findings() == {"source_topic_deleted"}


@pytest.mark.fault(10, 20)
def test_markers_behind_the_last_record_do_not_hide_it() -> None:
    flow = CalmFlow(on_source_truncated=Policy.CONTINUE)
    flow.write(*FIRST[:4])
    flow.run()
    copy = deepcopy(flow.source())
    flow.write(*FIRST[4:])
    for producer in range(5):
        flow.source().end_transaction(producer, 0, commit=True, now_ms=flow.schedule.now_ms())
    flow.run()
    flow.run()
    assert [row for row in flow.syncs() if row[0] == "superseded"] == []
    put_back(flow, copy)
    flow.write(*FIRST[4:8], *OTHERS)
    flow.run()
    assert values(flow.target()) == [*FIRST, *FIRST[4:8], *OTHERS]
    assert flow.broken_invariants() == {}


@pytest.mark.fault(10, 12)
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("is_longer", [False, True])
def test_at_once_it_is_found_from_where_on_both_sides_hold_other_records(side: str, is_longer: bool) -> None:
    """Leader epochs, the end of the log and what is deleted tell less."""
    flow, copy = copied_beyond_a_copy(Policy.STOP, kept=3)
    put_back(flow, copy)
    flow.write(*OTHERS[: 8 if is_longer else 5])
    (flow.source() if side == "source" else flow.target()).delete_before(2)
    flow.run()
    assert [row[:4] for row in flow.syncs() if row[0] == "superseded"] == [
        ("superseded", "source_truncated", 3, 10)
    ]
    flow.ask(RequestKind.RESUME)
    flow.run()
    assert (
        values(flow.target())[-len(OTHERS[: 8 if is_longer else 5]) :]
        == values(flow.source())[-(8 if is_longer else 5) :]
    )
    assert flow.stops() == {}
    assert flow.broken_invariants() == {}


@pytest.mark.fault(10, 12)
def test_where_epochs_went_back_and_nothing_can_be_compared_resume_continues() -> None:
    """The epoch that the source does not know is asked by no more, also by the next driver."""
    flow = CalmFlow(mode=TargetMode.SHARED)
    flow.write(*FIRST[:6])
    flow.run()
    copy = deepcopy(flow.source())
    flow.source().fail_over(keep_held=True)
    flow.write(*FIRST[6:])
    flow.run()
    put_back(flow, copy)
    flow.write(*OTHERS)
    flow.target().delete_before(10)
    flow.run()
    assert flow.stops() == {TOPIC: "source_truncated"}
    assert flow.findings() == {"source_not_compared"}
    flow.ask(RequestKind.RESUME)
    flow.run()
    assert flow.stops() == {}
    assert values(flow.target()) == OTHERS[4:]
    assert flow.broken_invariants() == {}
