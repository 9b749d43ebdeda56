"""A rehearsal of the past says what the plan of that time said, and one of now what a plan says."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ledger.changeover.past import PastContext
from ledger.changeover.planning import Planned
from ledger.changeover.plans import ChangeoverKind, Choices
from ledger.changeover.rehearsing import (
    AskedRehearsal,
    instants,
    rehearse_now,
    rehearsed_at,
    repeats_by_group,
    stuck_groups,
)
from ledger.changeover.seeing import make_plan
from ledger.context import Context
from ledger.errors import ClusterUnavailableError, UsageError
from ledger.facts.ways import Direction
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.support.changing_pairs import FAILOVER, ChangingPair
from tests.support.seen_pairs import SEEN, made, place

pytestmark = pytest.mark.long

WAY = Direction("east", "west")
ASKED = AskedRehearsal(WAY, FAILOVER)
_OF_THE_PLAN = ("records_lost", "records_at_most", "seconds_lost", "repeated", "blockers", "groups")


@dataclass
class Moment:
    """A plan that was made when the ledger was so."""

    plan: Planned
    at: OpenedSnapshot
    at_ms: int


def moment(pair: ChangingPair, choices: Choices = FAILOVER) -> Moment:
    with pair.outside.seen_by(pair.outside.process()):
        plan = make_plan(Context(pair.config), ChangeoverKind.FAILOVER, WAY, choices, {})
    return Moment(plan, OpenedSnapshot(pair.ledger), pair.schedule.now_ms())


def past_plan(pair: ChangingPair, then: Moment, choices: Choices = FAILOVER) -> Planned:
    with PastContext(pair.config, then.at, then.at_ms, lost="east") as context:  # type: ignore[arg-type]
        return make_plan(context, ChangeoverKind.FAILOVER, WAY, choices, {})


@pytest.fixture(name="pair")
def _pair() -> Iterator[ChangingPair]:
    pair = ChangingPair()
    yield pair
    pair.end()


def _all_of(plan: Planned) -> dict[str, Any]:
    """But what the target itself says of what it holds behind the map: nobody can ask it how it ended then."""
    forecast = dict(plan.forecast)
    losses = [{**row, "at_least": None} for row in plan.losses]
    unasked = {"records_at_least", "losses"}
    return {
        "plan": plan.plan.content(),
        "losses": losses,
        "places": list(plan.places),
        "forecast": {name: value for name, value in forecast.items() if name not in unasked},
        "stuck": stuck_groups(plan),
        "repeats": repeats_by_group(plan),
        "cut": plan.seen.cut,
    }


def test_the_past_says_what_the_plan_said_at_that_time(pair: ChangingPair) -> None:
    pair.forward.end_at_once()
    for number in range(5):
        pair.produce("orders", number % 2)
    pair.schedule.wait(2.0)
    pair.recorders.record_all()
    pair.lose_east(with_driver=False)
    before = moment(pair)
    pair.schedule.wait(7.0)
    pair.apply_by_many(pair.plan(ChangeoverKind.FAILOVER, FAILOVER))
    pair.recorders.record_all()
    after = moment(pair)
    assert after.plan.plan.blockers == ("group_active_at_target", "promoted_already")
    for then in (before, after):
        assert then.plan.forecast["records_lost"] == 5
        assert _all_of(past_plan(pair, then)) == _all_of(then.plan)
    row = rehearsed_at(pair.config, ASKED, after.at, after.at_ms)  # type: ignore[arg-type]
    expected = {**after.plan.forecast, "blockers": ", ".join(after.plan.plan.blockers)}
    assert {name: row[name] for name in _OF_THE_PLAN} == {name: expected[name] for name in _OF_THE_PLAN}
    assert row["apply_seconds"] == after.plan.forecast["downtime"]["seconds"]
    assert row["target_age_seconds"] is not None


def test_a_driver_at_work_may_yet_write_all_of_it_then_as_now(pair: ChangingPair) -> None:
    for _ in range(4):
        pair.produce("orders", 0)
    pair.recorders.record_all()
    choices = replace(FAILOVER, source_given_up=True)
    then = moment(pair, choices)
    assert then.plan.forecast["records_lost"] == 4, "nothing of it is copied yet"
    found = past_plan(pair, then, choices).forecast
    assert (found["records_at_least"], found["records_lost"]) == (0, 4)
    assert then.plan.forecast["records_at_least"] == 0


def test_what_was_recorded_later_changes_no_answer(pair: ChangingPair) -> None:
    then = moment(pair, replace(FAILOVER, source_given_up=True))
    before = past_plan(pair, then)
    for number in range(9):
        pair.produce("orders", number % 2)
    pair.schedule.wait(5.0)
    pair.recorders.record_all()
    assert _all_of(past_plan(pair, then)) == _all_of(before)
    assert OpenedSnapshot(pair.ledger).cut != then.at.cut


def test_the_lost_cluster_answers_nothing_and_the_other_what_was_recorded(pair: ChangingPair) -> None:
    then = moment(pair)
    with PastContext(pair.config, then.at, then.at_ms, lost="east") as context:  # type: ignore[arg-type]
        west = context.cluster("west")
        assert west.cluster_id() == pair.west.cluster_id()
        assert {name: one.topic_id for name, one in west.topics().items() if not one.internal} == {
            name: one.topic_id for name, one in pair.west.topics().items() if not one.internal
        }
        for ask in (context.cluster("east").cluster_id, context.cluster("east").topics):
            with pytest.raises(ClusterUnavailableError, match="east is taken for lost"):
                ask()
        with pytest.raises(ClusterUnavailableError, match="nobody can ask west how it was"):
            west.broker_count()


def test_now_is_the_plan_of_now_and_leaves_the_ledger_as_it_is(pair: ChangingPair) -> None:
    pair.lose_east(with_driver=False)
    before = OpenedSnapshot(pair.ledger).cut
    with pair.outside.seen_by(pair.outside.process()):
        found = rehearse_now(Context(pair.config), ASKED)
    assert OpenedSnapshot(pair.ledger).cut == before
    assert not found.source_answers
    assert found.silent_seconds is not None
    assert found.silent_seconds >= 3.0, "for so long nobody has read east"
    assert found.figures["records_lost"] == found.made.forecast["records_lost"] == 0


def test_groups_that_cannot_move_are_counted_once_by_each_reason() -> None:
    places = [
        place("a", status="no_map", target_offset=None),
        place("a", source_partition=1, status="no_map", target_offset=None),
        place("b"),
        place("c"),
    ]
    plan = made(
        replace(SEEN, places=places, active=frozenset({"c"}), unread_groups={"b": "hidden", "x": "hidden"})
    )
    assert stuck_groups(plan) == {"group_active_at_target": ["c"], "hidden": ["b"], "no_map": ["a"]}


def test_repeats_of_a_group_are_those_of_all_its_places() -> None:
    places = [
        place("a", repeated=3),
        place("a", source_partition=1, repeated=4),
        place("b", repeated=5),
        place("b", source_partition=1, repeated=None),
    ]
    assert repeats_by_group(made(replace(SEEN, places=places))) == {"a": 7, "b": None}


@pytest.mark.parametrize(
    ("since", "until", "every", "expected"),
    [(0, 10, 5, [0, 5, 10]), (0, 9, 5, [0, 5]), (4, 4, 5, [4])],
)
def test_instants_reach_to_the_last_one(since: int, until: int, every: int, expected: list[int]) -> None:
    assert instants(since, until, every) == expected


def test_no_instants_and_too_many_are_refused() -> None:
    with pytest.raises(UsageError, match="lies behind --until"):
        instants(1, 0, 1)
    with pytest.raises(UsageError, match="Take a longer --every"):
        instants(0, 10**9, 1)
