"""What a change of direction loses, and how long it took: figures and words, and unknown is never 0."""

from typing import Any

import pytest

from ledger.domain.changeover.applies import Apply
from ledger.domain.changeover.steps import ChangeoverKind, StepName
from ledger.domain.offsets.cut_offsets import Cut, CutOffset, CutSide
from ledger.domain.operations.promotion.changeovers import StepDone
from ledger.errors import PreconditionError
from ledger.operations.changeover.losses import (
    TAKEN_FOR_DONE,
    Took,
    loss_figures,
    loss_words,
    losses,
    of_applications,
    require_all_copied,
)

LAGGING: dict[str, Any] = {
    "flow": "flow",
    "source_topic": "orders",
    "source_topic_id": "E1",
    "source_partition": 0,
    "known_end": 110,
    "map_end": 90,
    "settled_records": 4,
    "records_at_risk": 16,
    "level_at_ms": 1_000,
    "lost_since_ms": 1_500,
    "at_risk_ms": 3_000,
    "ends_read_at_ms": 4_000,
    "age_ms": 2000,
    "extra_estimate": 5,
    "status": "lagging",
}
COMPLETE = {
    **LAGGING,
    "source_partition": 1,
    "known_end": 94,
    "records_at_risk": 0,
    "level_at_ms": None,
    "lost_since_ms": None,
    "at_risk_ms": None,
    "extra_estimate": 0,
    "status": "complete",
}
UNKNOWN = {
    **COMPLETE,
    "known_end": None,
    "records_at_risk": None,
    "extra_estimate": None,
    "status": "unknown",
}


def cut(high_watermark: int, **changed: Any) -> Cut:
    at = CutOffset(
        **{
            "operation_id": "o",
            "flow": "flow",
            "side": CutSide.SOURCE,
            "cluster": "east",
            "cluster_id": "E",
            "source_topic": "orders",
            "topic": "orders",
            "topic_id": "E1",
            "partition": 0,
            "high_watermark": high_watermark,
            "is_live": True,
            **changed,
        }
    )
    return Cut("o", (at,))


def test_a_partition_loses_what_lies_between_its_copies_and_its_end() -> None:
    [found] = losses([LAGGING])
    assert (found["copied_to"], found["known_end"], found["records"]) == (94, 110, 16)
    assert (found["seconds"], found["seconds_bound"], found["precision_seconds"]) == (3.0, "at_most", 0.5)
    [first] = losses([{**LAGGING, "level_at_ms": None}])
    assert (first["seconds_bound"], first["precision_seconds"]) == ("at_least", None)


@pytest.mark.parametrize(
    ("read", "records", "estimate"),
    [
        (cut(120), 26, 0),
        (cut(100), 16, 0),
        (cut(120, is_live=False), 16, 5),
        (cut(120, topic_id="E2"), 16, 5),
        (cut(120, partition=1), 16, 5),
    ],
)
def test_what_the_cut_has_read_of_the_source_counts(read: Cut, records: int, estimate: int) -> None:
    [found] = losses([LAGGING], read)
    assert (found["records"], found["estimate"]) == (records, estimate)


def test_all_together_and_only_what_is_not_complete_by_itself() -> None:
    figures = loss_figures(losses([LAGGING, COMPLETE]))
    assert (figures["records_lost"], figures["records_estimated"], figures["seconds_lost"]) == (16, 5, 3.0)
    assert [row["partition"] for row in figures["losses"]] == [0]
    assert loss_words(figures) == (
        "16 records not copied, the oldest for at most 3 s (to 0.500 s); about 5 records more since the last reading"
    )
    assert loss_words(loss_figures(losses([COMPLETE]))) == "all that is known of 1 partition is copied"


def test_what_is_unknown_of_one_partition_is_unknown_of_all() -> None:
    figures = loss_figures(losses([LAGGING, UNKNOWN]))
    assert (figures["records_lost"], figures["records_estimated"], figures["seconds_lost"]) == (
        None,
        None,
        None,
    )
    assert loss_words(figures) == "what is not copied is unknown of 1 partition"
    no_rate = loss_figures(losses([{**COMPLETE, "extra_estimate": None}]))
    assert loss_words(no_rate).endswith("what was written after the last reading is unknown")


def test_what_mirrors_wrote_behind_the_map_is_nobodys_loss() -> None:
    [found] = losses([LAGGING])
    assert loss_figures([of_applications(found, 0)])["losses"] == []
    figures = loss_figures([of_applications(found, 2)])
    assert (figures["records_lost"], figures["seconds_lost"]) == (2, 3.0)


def apply_with(read_back: dict[str, Any]) -> Apply:
    done = Apply("o", "p", "ana", None, None, begun_at_ms=10_000)
    done.begun[StepName.STOP_PRODUCERS] = 14_000
    done.done_at_ms[StepName.START_APPLICATIONS] = 30_000
    done.done[StepName.FIRST_PROGRESS] = StepDone(step="first_progress", words="", read_back=read_back)
    return done


def test_downtime_begins_with_the_producers_or_with_the_decision() -> None:
    now = apply_with({"first_commit_at_ms": {"billing": 41_000, "audit": 33_500}})
    planned, lost = (Took.of(kind, now) for kind in (ChangeoverKind.SWITCHOVER, ChangeoverKind.FAILOVER))
    assert (planned.downtime_s, planned.since) == (16.0, "stop_producers")
    assert (lost.downtime_s, lost.since) == (20.0, "decision")
    assert lost.figures["seconds_to_first_commit"] == {"audit": 23.5, "billing": 31.0}
    assert "2 groups at work again, the last one, billing, 31 s after the decision" in lost.words


def people_said(now: Apply, step: StepName, by: str) -> Apply:
    now.done[step] = StepDone(step=str(step), words=by, read_back={"by": by})
    return now


@pytest.mark.parametrize("step", [StepName.STOP_PRODUCERS, StepName.START_APPLICATIONS])
def test_downtime_that_nobody_saw_begin_or_end_was_so_long_at_least(step: StepName) -> None:
    seen = Took.of(ChangeoverKind.SWITCHOVER, people_said(apply_with({}), step, "hook"))
    assert (seen.is_at_least, seen.figures["downtime_bound"]) == (False, None)
    unseen = Took.of(ChangeoverKind.SWITCHOVER, people_said(apply_with({}), step, TAKEN_FOR_DONE))
    assert unseen.figures["downtime_bound"] == "at_least"
    assert unseen.words.startswith("applications had no cluster to write to for at least 16 s")
    lost = Took.of(ChangeoverKind.FAILOVER, people_said(apply_with({}), step, TAKEN_FOR_DONE))
    assert lost.is_at_least is (step is StepName.START_APPLICATIONS), "a failover begins with the decision"


def test_groups_that_were_not_seen_at_work_are_named() -> None:
    at_work = {"first_commit_at_ms": {"billing": 41_000}, "not_seen_at_work": ["audit", "idle"]}
    for read_back in (at_work, {**at_work, "first_commit_at_ms": {}}):
        took = Took.of(ChangeoverKind.FAILOVER, apply_with(read_back))
        assert took.figures["groups_without_commit"] == ["audit", "idle"]
        assert took.words.endswith("; not seen at work: audit, idle")
    all_at_work = Took.of(ChangeoverKind.FAILOVER, apply_with({**at_work, "not_seen_at_work": []}))
    assert all_at_work.figures["groups_without_commit"] == []
    assert "not seen" not in all_at_work.words


def test_what_was_not_measured_is_said_so() -> None:
    took = Took.of(ChangeoverKind.FAILOVER, apply_with({}))
    assert took.figures["seconds_to_first_commit"] is None
    assert took.figures["groups_without_commit"] is None
    assert "was not measured" in took.words


def test_a_switchover_leaves_nothing_behind_and_nothing_unknown() -> None:
    require_all_copied(loss_figures(losses([COMPLETE])), source="east", operation_id="op")
    for row, words in (
        (LAGGING, r"16 records not copied.*of east, orders.*undo op"),
        (UNKNOWN, r"unknown of 1 partition: of east, orders.*record east.*undo op"),
    ):
        with pytest.raises(PreconditionError, match=words):
            require_all_copied(loss_figures(losses([COMPLETE, row])), source="east", operation_id="op")
