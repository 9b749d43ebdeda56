"""A driver and its source die together, somebody settles the flow, and the source comes back."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from ledger.config.values import TargetMode
from ledger.errors import ClusterUnavailableError, LedgerUnavailableError, PreconditionError, ShutOutError
from ledger.facts.direction import Demoted, Promoted
from ledger.facts.operations import OperationKind
from ledger.facts.requests import RequestKind
from ledger.kafka.cluster import PartitionEnds
from ledger.mirror.assignment import StopCause
from ledger.store.catalog import Value, query
from ledger.store.sql import run_query
from tests.simulation.crash_points import CrashPoint
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.recorders import Recorders
from tests.support.calm_flows import TOPIC, CalmFlow, values

SETTLED = [("started", "earliest", 0, 0, 0, 0), ("unpaired", "lost_source", 0, 0, 0, 3)]
AGAIN = [("superseded", "settled", 0, 0, 0, 0), ("copied", None, 0, 3, 0, 3)]
CHANGE: dict[str, Any] = {
    **{"cluster": "west", "cluster_id": "cluster-of-west", "topics": None},
    **{"former": "east", "former_id": "cluster-of-east"},
}


def unrecorded(*, mode: TargetMode = TargetMode.EXCLUSIVE) -> CalmFlow:
    """Three records were copied, and the driver died before it recorded them."""
    flow = CalmFlow(mode=mode, crash=CrashPoint.TASKS_RETURNED)
    flow.write(*"abc")
    flow.run()
    assert flow.syncs() == SETTLED[:1]
    return flow


def receipts(flow: CalmFlow) -> list[dict[str, object]]:
    rows = [row for row in flow.ledger.rows("operations") if row["kind"] == OperationKind.SETTLED]
    return [json.loads(row["content"]) for row in rows]


@pytest.mark.fault(4, 32)
def test_what_was_copied_and_not_recorded_is_found_without_the_source_and_paired_when_it_is_back() -> None:
    flow = unrecorded()
    done = flow.settle(operation_id="one")
    assert (done.operation_id, done.records, done.refused) == ("one", 3, {})
    assert done.words == "f: 3 records copied and not recorded, on 1 of 1 partition read"
    assert flow.syncs() == SETTLED
    [receipt] = receipts(flow)
    assert {
        name: receipt[name] for name in ("source_start", "target_start", "target_end", "records", "others")
    } == {
        "source_start": 0,
        "target_start": 0,
        "target_end": 3,
        "records": 3,
        "others": 0,
    }
    assert flow.broken_invariants() == {}
    flow.write("d")
    flow.run()
    assert values(flow.target()) == [*"abcd"]
    assert flow.syncs() == [*SETTLED, *AGAIN, ("copied", None, 3, 4, 3, 4)]
    assert (flow.stops(), flow.broken_invariants()) == ({}, {})
    flow.run()
    assert len(flow.syncs()) == 5, "what was paired is not read again"


def test_what_was_copied_of_a_topic_that_was_created_again_is_recorded_of_that_one() -> None:
    """Though the former one stood at the same target offset, and recorders have read that one alone."""
    flow = CalmFlow(crash=CrashPoint.TASKS_RETURNED)
    flow.plan.is_over = True
    flow.write(*"abc")
    flow.run()
    Recorders(random.Random(1), flow.schedule, [flow.east], flow.ledger).record_all()
    flow.east.delete_topic(TOPIC, topic_id=flow.east.topics()[TOPIC].topic_id)
    flow.east.create_topic(TOPIC, partitions=1, replication_factor=1, configuration={})
    flow.write(*"de")
    flow.run()
    flow.ask(RequestKind.RESUME)
    flow.plan.is_over = False
    flow.run()
    assert values(flow.target()) == [*"abcde"], "and two of them are not recorded"
    assert flow.settle().records == 2
    [found] = [row for row in flow.ledger.rows("offset_syncs") if row["kind"] == "unpaired"]
    assert found["source_topic_id"] == flow.east.topics()[TOPIC].topic_id
    flow.run()
    assert (values(flow.target()), flow.stops(), flow.broken_invariants()) == ([*"abcde"], {}, {})


def test_settling_again_finds_nothing_more_and_what_came_late_is_found() -> None:
    flow = unrecorded()
    flow.settle()
    again = flow.settle()
    assert (again.records, flow.syncs()) == (0, SETTLED)
    late = flow.target().headers()[-1]
    assert receipts(flow)[-1]["target_start"] == late.end_offset
    flow.run()
    assert flow.syncs() == [*SETTLED, *AGAIN]


def test_a_flow_that_was_settled_twice_goes_back_to_where_it_stood_at_first() -> None:
    """A request of the dead driver was executed after its tail had been read."""
    flow = unrecorded()
    _, late = flow.target().batches()[-1]
    flow.target().lose_end(2)
    flow.settle()
    assert flow.target().produce(late, now_ms=flow.schedule.now_ms()).error == 0
    flow.settle()
    assert flow.syncs()[1:] == [
        ("unpaired", "lost_source", 0, 0, 0, 2),
        ("unpaired", "lost_source", 0, 0, 2, 3),
    ]
    flow.run()
    assert flow.syncs()[3:] == AGAIN
    assert (values(flow.target()), flow.broken_invariants()) == ([*"abc"], {})


@pytest.mark.parametrize("append", [1, 2, 3])
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("settles_again", [False, True])
def test_a_crash_at_any_append_comes_to_the_same_end(append: int, is_done: bool, settles_again: bool) -> None:
    flow = unrecorded()
    with pytest.raises(LedgerUnavailableError):
        flow.settle(dies_at=append, is_done=is_done)
    if settles_again:
        flow.settle()
        assert flow.syncs() == SETTLED
    flow.run()
    assert flow.syncs()[-1] == AGAIN[-1]
    assert (values(flow.target()), flow.stops(), flow.broken_invariants()) == ([*"abc"], {}, {})


@pytest.mark.parametrize("mode", list(TargetMode))
def test_records_of_others_are_told_and_nobodys_claim(mode: TargetMode) -> None:
    flow = unrecorded(mode=mode)
    flow.write("x", "y", at=flow.west)
    done = flow.settle()
    [line] = done.partitions
    assert [line.facts[name] for name in ("records", "others", "target_end")] == [
        3,
        "2 from target offset 3 on",
        5,
    ]
    assert done.words.endswith("; records of other writers on 1")
    assert (receipts(flow)[0]["others"], receipts(flow)[0]["others_start"]) == (2, 3)
    assert flow.syncs() == SETTLED
    flow.run()
    stopped = {TOPIC: StopCause.FOREIGN_WRITE} if mode is TargetMode.EXCLUSIVE else {}
    assert (flow.syncs(), flow.stops()) == ([*SETTLED, *AGAIN], stopped)


def test_while_the_target_is_promoted_what_was_settled_stays() -> None:
    flow = unrecorded()
    flow.settle()
    flow.declare(Promoted(**CHANGE))
    flow.run()
    assert (flow.syncs(), flow.stops()) == (SETTLED, {TOPIC: StopCause.PROMOTED})
    driver = flow.start()
    flow.declare(Demoted(**CHANGE))
    flow.schedule.wait(3.0)
    flow.end(driver)
    assert (flow.syncs(), flow.stops()) == ([*SETTLED, *AGAIN], {})


def test_a_source_that_comes_back_with_less_stops_what_it_cannot_explain() -> None:
    """Nothing is guessed: after a crash a broker may show less than it has."""
    flow = unrecorded()
    flow.settle()
    flow.source().lose_end(1)
    flow.run()
    assert flow.stops() == {TOPIC: StopCause.TAIL_MISMATCH}
    flow.ask(RequestKind.ACCEPT_FOREIGN)
    flow.run()
    assert flow.stops() == {}
    recorded = flow.syncs()
    flow.run()
    assert flow.syncs() == recorded, "what was accepted is not read again"
    assert flow.broken_invariants() == {}


def test_a_batch_of_which_a_source_has_lost_a_part_is_paired_up_to_where_it_parts() -> None:
    """Else an operator who accepts what lies there would have the beginning of it copied once more."""
    flow = CalmFlow(crash=CrashPoint.TASKS_RETURNED)

    def write(*values: str) -> None:
        for value in values:
            flow.schedule.jump(1.0)
            now_ms = flow.schedule.now_ms()
            flow.source().append(application_batch([content(b"k", value.encode())], [now_ms]), now_ms=now_ms)

    write(*"abc")
    flow.run()
    assert [header.count for header in flow.target().headers()] == [3], "small batches were merged"
    flow.source().lose_end(2)
    write(*"xy")
    flow.run()
    assert (flow.stops(), values(flow.target())) == ({TOPIC: StopCause.TAIL_MISMATCH}, [*"abc"])
    flow.ask(RequestKind.ACCEPT_FOREIGN)
    flow.run()
    assert (flow.stops(), values(flow.target())) == ({}, [*"abcxy"])
    assert flow.syncs()[1:3] == [("copied", None, 0, 2, 0, 2), ("unpaired", "accepted", 2, 2, 2, 3)]
    assert flow.broken_invariants() == {}


def test_a_target_that_lost_its_end_is_not_settled() -> None:
    flow = CalmFlow()
    flow.write(*"abc")
    flow.run()
    flow.target().lose_end(2)
    before = flow.syncs()
    done = flow.settle()
    [reason] = done.refused.values()
    assert "the target ends at offset 2, the flow's record of it at 3: it lost its end" in reason
    assert (done.operation_id, done.words) == (
        None,
        "f: 0 records copied and not recorded, on 0 of 0 partitions read; 1 not settled",
    )
    flow.write("x", "y", at=flow.west)
    [reason] = flow.settle().refused.values()
    assert "target offset 2 holds a record of producer id" in reason
    assert (flow.syncs(), receipts(flow)) == (before, [])


def test_a_target_that_is_created_again_meanwhile_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = unrecorded()
    ends_of = flow.west.ends

    def recreated_behind(partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        found = ends_of(partitions)
        flow.west.recreate_topic(TOPIC)
        return found

    monkeypatch.setattr(flow.west, "ends", recreated_behind)
    began = flow.schedule.monotonic()
    [reason] = flow.settle().refused.values()
    assert (
        reason == f"{TOPIC} partition 0 was deleted, or created again; nothing of the partition was settled"
    )
    assert flow.schedule.monotonic() - began < 2.0
    assert receipts(flow) == []


@pytest.mark.parametrize("source_answers", [True, False])
def test_a_source_that_answers_or_a_flow_that_never_ran_is_refused(source_answers: bool) -> None:
    flow = unrecorded() if source_answers else CalmFlow()
    claims = len(flow.ledger.rows("writers"))
    words = (
        "east answers.*nothing was settled. Run it instead"
        if source_answers
        else "has never run.*nothing was settled"
    )
    with pytest.raises(PreconditionError, match=words):
        flow.settle(source_answers=source_answers)
    assert len(flow.ledger.rows("writers")) == claims


def test_settling_gives_the_flow_back_where_the_target_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its process may live on for long: it carries out a plan."""
    flow = unrecorded()

    def away(_partitions: object) -> None:
        raise ClusterUnavailableError("cluster 'west': no broker answers")

    monkeypatch.setattr(flow.west, "ends", away)
    with pytest.raises(ClusterUnavailableError):
        flow.settle()
    assert flow.ledger.rows("writers")[-1]["event"] == "released"


def test_a_driver_that_begins_meanwhile_has_the_flow() -> None:
    flow = unrecorded()
    flow.run()
    with pytest.raises(ShutOutError):
        flow.settle(after=1)
    assert receipts(flow) == []


def loss(flow: CalmFlow) -> list[tuple[Any, ...]]:
    """Records at risk, and status, by what was recorded."""
    at = flow.ledger.at(flow.ledger.latest())
    params: dict[str, Value] = {"from_cluster": "east", "to_cluster": "west", "at_ms": flow.schedule.now_ms()}
    rows = run_query(query("failover_loss"), params, at).to_pylist()
    return [(row["records_at_risk"], row["status"]) for row in rows]


def record_ends(flow: CalmFlow) -> None:
    """As a recorder does who reads the source now."""
    found = flow.east.ends([(TOPIC, 0)])[TOPIC, 0]
    row = {
        **{"cluster": "east", "topic": TOPIC, "topic_id": flow.east.topics()[TOPIC].topic_id, "partition": 0},
        **{
            "leader_epoch": found.leader_epoch,
            "log_start": found.log_start,
            "last_stable": found.last_stable,
        },
        **{"high_watermark": found.high_watermark, "read_at_ms": flow.schedule.now_ms()},
        **{"confirms_others": True, "previous_read_at_ms": None},
    }
    MemoryFactLog(flow.ledger, flow.schedule).append_next("recorder:east", "high_watermarks", [row])


def test_what_would_be_lost_is_what_the_target_lacks_when_its_end_has_been_settled() -> None:
    flow = unrecorded()
    assert loss(flow) == [(None, "unknown")]
    flow.write("d", "e")
    record_ends(flow)
    assert loss(flow) == [(5, "lagging")], "nobody knows what the target has"
    flow.settle()
    assert (
        loss(flow)
        == [(len(values(flow.source())) - len(values(flow.target())), "lagging")]
        == [(2, "lagging")]
    )
    flow.run()
    assert loss(flow) == [(0, "complete")]
