"""What a change of direction loses and how long it takes: estimated, told, and what may not be left behind."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from ledger.changeover.losses import (
    ALL_OF_IT,
    TAKEN_FOR_DONE,
    Took,
    compared,
    compared_words,
    downtime_words,
    forecast_downtime,
    loss_figures,
    loss_objectives,
    loss_words,
    losses,
    of_applications,
    require_all_copied,
    steps_without_a_cluster,
)
from ledger.changeover.plans import Apply, ChangeoverKind, FenceChoice, StepName, steps_of
from ledger.config.values import Objective
from ledger.errors import PreconditionError
from ledger.facts.changeovers import StepDone
from ledger.facts.cut_offsets import Cut, CutSide
from ledger.facts.requests import Pauses
from ledger.facts.roles import RoleVerdict
from tests.support.seen_pairs import COMPLETE, FAILOVER, LAGGING, SEEN, SWITCHOVER, UNKNOWN, cut, flow, made

# -- Rows ------------------------------------------------------------------------------------------


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
        (LAGGING, r"10 to 16 records not copied.*of east, orders.*undo op"),
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


# -- As a whole and in words -----------------------------------------------------------------------

NO_RATE = {**COMPLETE, "extra_estimate": None, "loss_at_most": None, "rate_per_second": None}


def test_a_partition_loses_what_lies_between_its_copies_and_its_end() -> None:
    [found] = losses([LAGGING])
    assert (found["copied_to"], found["known_end"], found["records"]) == (94, 110, 16)
    assert (found["at_least"], found["at_most"]) == (10, 21)
    assert (found["seconds"], found["seconds_bound"], found["precision_seconds"]) == (3.0, "at_most", 0.5)
    [first] = losses([{**LAGGING, "level_at_ms": None}])
    assert (first["seconds_bound"], first["precision_seconds"]) == ("at_least", None)


@pytest.mark.parametrize(("held", "at_least"), [(0, 16), (4, 16), (9, 11), (50, 0)])
def test_what_the_target_holds_now_may_be_of_it(held: int, at_least: int) -> None:
    """Four of it were settled: they are counted as copied already."""
    [found, other] = losses(
        [LAGGING, {**LAGGING, "source_partition": 7}], None, {("flow", "orders", 0): held}
    )
    assert (found["at_least"], found["records"], found["at_most"]) == (at_least, 16, 21)
    assert other["at_least"] == 10, "as it was recorded"


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
    assert (found["records"], found["estimate"], found["at_most"]) == (records, estimate, records + estimate)
    assert found["at_least"] == records - 6
    assert (found["unseen_seconds"] == 0) is (estimate == 0)


def test_all_together_and_only_what_is_not_complete_by_itself() -> None:
    figures = loss_figures(losses([LAGGING, COMPLETE]))
    assert (figures["records_lost"], figures["records_estimated"], figures["seconds_lost"]) == (16, 5, 3.0)
    assert (figures["records_at_least"], figures["records_at_most"], figures["unseen_seconds"]) == (
        10,
        21,
        1.0,
    )
    assert [row["partition"] for row in figures["losses"]] == [0]
    assert loss_words(figures) == (
        "10 to 16 records not copied, the oldest for at most 3 s (to 0.500 s); at most 5 more records came since the "
        "last reading (1970-01-01 00:00:04Z, 1 s unseen), at up to 5 a second as before"
    )
    assert loss_words(loss_figures(losses([COMPLETE]))) == (
        "all that is known of 1 partition is copied; last reading (1970-01-01 00:00:04Z, 1 s unseen)"
    )


def test_without_a_rate_there_is_no_upper_end() -> None:
    figures = loss_figures(losses([LAGGING, NO_RATE]))
    assert (figures["records_at_least"], figures["records_at_most"]) == (10, None)
    assert loss_words(figures).startswith("10 to 16 records not copied, the oldest for at most 3 s")
    assert loss_words(figures).endswith(
        "; what was written after the last reading (1970-01-01 00:00:04Z, 1 s unseen) is unknown, no rate is known of "
        "1 partition"
    )


def test_what_is_unknown_of_one_partition_is_unknown_of_all() -> None:
    figures = loss_figures(losses([LAGGING, UNKNOWN]))
    for name in ("records_lost", "records_estimated", "records_at_least", "records_at_most", "seconds_lost"):
        assert figures[name] is None, name
    assert loss_words(figures) == "what is not copied is unknown of 1 partition"


def test_what_mirrors_wrote_behind_the_map_is_nobodys_loss() -> None:
    [found] = losses([LAGGING])
    assert loss_figures([of_applications(found, 0)])["losses"] == []
    figures = loss_figures([of_applications(found, 2)])
    assert (figures["records_lost"], figures["records_at_most"], figures["seconds_lost"]) == (2, 2, 3.0)


Known = tuple[float | None, bool]


def judged(*rows: dict[str, Any], fresh_seconds: float = 60.0) -> list[Known]:
    """Records, then seconds."""
    found = list(loss_objectives(losses(rows), of="f", fresh_seconds=fresh_seconds))
    assert [one.objective for one in found] == [Objective.MAX_LOSS_RECORDS, Objective.MAX_LOSS_SECONDS]
    return [(one.value, one.is_at_least) for one in found]


def test_objectives_are_compared_with_the_upper_end_and_up_to_now() -> None:
    assert judged(LAGGING, COMPLETE) == [(21, False), (5.0, False)]
    assert judged(COMPLETE) == [(0, False), (0.0, False)]
    assert judged({**LAGGING, "level_at_ms": None})[1] == (5.0, True)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([LAGGING, NO_RATE], [(10, True), (5.0, True)]),
        ([NO_RATE], [(None, True), (None, True)]),
        ([LAGGING, UNKNOWN], [(None, True), (None, True)]),
        (
            [{**LAGGING, "unseen_ms": None, "loss_at_most": None, "extra_estimate": None}],
            [(10, True), (5.0, True)],
        ),
        ([], [(None, True), (None, True)]),
    ],
)
def test_what_is_unknown_of_a_partition_is_not_known_to_be_met(
    rows: list[dict[str, Any]], expected: list[Known]
) -> None:
    assert judged(*rows) == expected


def test_a_rate_of_long_ago_says_nothing() -> None:
    assert judged(LAGGING, fresh_seconds=1.0)[0] == (21, False)
    assert judged(LAGGING, fresh_seconds=0.9)[0] == (10, True)
    assert judged(COMPLETE, fresh_seconds=0.9) == [(None, True), (None, True)], "nothing is known of now"


# -- Downtimes -------------------------------------------------------------------------------------

_STEPS = steps_of(SWITCHOVER, is_promoted=True)


def forecast(
    partitions: int = 1_000,
    groups: int = 100,
    waits: Mapping[StepName, float] = MappingProxyType({}),
    **measured: float,
) -> dict[str, Any]:
    return forecast_downtime(
        SWITCHOVER,
        _STEPS,
        FenceChoice.CLOSED,
        partitions=partitions,
        groups=groups,
        measured=measured,
        waits=waits,
    )


def test_applications_wait_from_the_stop_of_producers_until_they_are_started() -> None:
    waited_for = steps_without_a_cluster(SWITCHOVER, _STEPS)
    assert waited_for == _STEPS[_STEPS.index(StepName.FENCE) : _STEPS.index(StepName.START_APPLICATIONS)]
    of_failover = steps_of(FAILOVER, is_promoted=True)
    assert steps_without_a_cluster(FAILOVER, of_failover)[0] is StepName.CHECK, "from the decision on"


def test_what_was_never_done_is_forecast_by_its_size() -> None:
    small, large = forecast(partitions=10, groups=1), forecast()
    assert small["measured"] == large["measured"] == []
    assert sum(large["steps"].values()) == pytest.approx(large["seconds"])
    assert small["seconds"] < large["seconds"]
    assert "an estimate" in downtime_words(large)


def test_what_was_done_before_is_forecast_by_what_it_took() -> None:
    found = forecast(cut=7.26, stop_groups=99.0, start_applications=50.0)
    assert (found["measured"], found["steps"]["cut"]) == (["cut"], 7.3)
    assert found["steps"]["stop_groups"] < 5, "people took most of it"
    assert "by what it took last (1 of" in downtime_words(found)
    assert "cut 7.3 s" in downtime_words(found)


def test_a_step_takes_at_least_as_long_as_the_plan_lets_it_watch() -> None:
    watching = {StepName.FENCE: 30.0, StepName.MOVE_GROUPS: 20.0}
    assert forecast(waits=watching)["seconds"] == pytest.approx(forecast()["seconds"] + 50)
    found = forecast(waits=watching, fence=4.0, move_groups=25.0)["steps"]
    assert (found["fence"], found["move_groups"]) == (30.0, 25.0), (
        "the last plan had not let it watch for as long"
    )


def test_a_plan_forecasts_its_fence_and_for_how_long_commits_are_watched() -> None:
    def steps(watch: float, **seen: Any) -> Mapping[str, float]:
        found: Mapping[str, float] = made(replace(SEEN, **seen), watch_seconds=watch).forecast["downtime"][
            "steps"
        ]
        return found

    without = steps(0.0)
    assert steps(7.0) == without, "a group with members, and nobody at work at the target"
    no_members = steps(7.0, memberless=frozenset({"billing"}))
    assert no_members["move_groups"] == without["move_groups"] + 7, "before it is set"
    both = steps(7.0, memberless=frozenset({"billing"}), used=True)
    assert both["move_groups"] == without["move_groups"] + 14, "and behind that"
    assert steps(0.0, fence_quiet_s=30.0)["fence"] == without["fence"] + 30


def test_a_plan_forecasts_by_the_last_apply_of_its_kind() -> None:
    seen = replace(SEEN, step_seconds={SWITCHOVER: {"cut": 9.0}, FAILOVER: {"drain": 80.0}})
    downtime = made(seen).forecast["downtime"]
    assert (downtime["steps"]["cut"], downtime["measured"]) == (9.0, ["cut"])
    assert downtime["partitions"] == 1
    assert made(SEEN, ChangeoverKind.FAILOVER, source_given_up=True).forecast["downtime"]["measured"] == []


def test_a_report_compares_what_was_forecast_with_what_it_took() -> None:
    found = compared(forecast(cut=2.0, audit=1.0), {"cut": 5.04, "audit": 1.2, "stop_groups": 60.0})
    assert found == {"cut": {"forecast": 2.0, "took": 5.0}, "audit": {"forecast": 1.0, "took": 1.2}}
    assert compared_words(found) == (
        "the steps between took 6.2 s, 3.0 s were forecast: cut 5.0 s instead of 2.0 s"
    )
