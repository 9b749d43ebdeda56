"""What a switchover may not leave behind, and how long a change of direction took."""

from typing import Any

import pytest

from ledger.changeover.losses import ALL_OF_IT, TAKEN_FOR_DONE, Took, loss_figures, losses, require_all_copied
from ledger.changeover.plans import Apply, ChangeoverKind, StepName
from ledger.errors import PreconditionError
from ledger.facts.changeovers import StepDone
from ledger.facts.cut_offsets import Cut, CutSide
from ledger.facts.requests import Pauses
from ledger.facts.roles import RoleVerdict
from tests.support.loss_rows import COMPLETE, LAGGING, UNKNOWN, cut
from tests.support.seen_pairs import flow


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


@pytest.mark.parametrize(("is_at_work", "is_paused"), [(True, False), (True, True), (False, False)])
def test_what_a_driver_at_work_may_yet_write_is_not_lost_for_sure(is_at_work: bool, is_paused: bool) -> None:
    driver = RoleVerdict.IN_USE if is_at_work else RoleVerdict.HOLDER_DEAD
    may_write = flow(driver=driver, paused=Pauses(whole_flow=is_paused)).may_write("orders")
    assert may_write is (is_at_work and not is_paused)
    [row] = losses([LAGGING], None, {("flow", "orders", 0): ALL_OF_IT if may_write else 6})
    assert (row["at_least"], row["at_most"]) == (0 if may_write else 14, 21)


def test_a_switchover_leaves_nothing_behind_and_nothing_unknown() -> None:
    require_all_copied(loss_figures(losses([COMPLETE])), source="east", operation_id="op")
    for row, words in (
        (LAGGING, r"10 to 21 records not copied.*of east, orders.*undo op"),
        (UNKNOWN, r"unknown of 1 partition: of east, orders.*record east.*undo op"),
    ):
        with pytest.raises(PreconditionError, match=words):
            require_all_copied(loss_figures(losses([COMPLETE, row])), source="east", operation_id="op")


@pytest.mark.parametrize(
    ("taken", "is_copied"),
    [
        (cut(120, map_source_end=120), True),
        (cut(120, map_source_end=119), False),
        (cut(90, map_source_end=120), True),
        (cut(0), True),
        (cut(1), False),
        (cut(120, map_source_end=120, is_live=False), False),
        (cut(120, map_source_end=120, topic_id="E2"), False),
        (cut(120, map_source_end=120, side=CutSide.TARGET), False),
        (Cut("o", ()), False),
    ],
)
def test_a_cut_shows_that_all_is_copied_only_of_what_it_has_read_itself(taken: Cut, is_copied: bool) -> None:
    found = taken.sources_copied({("flow", "orders"): "E1"})
    assert (found is not None) == is_copied
    assert taken.sources_copied({("flow", "orders"): "E1", ("flow", "users"): "E1"}) is None
