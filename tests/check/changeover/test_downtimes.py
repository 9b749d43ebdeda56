"""For how long applications have no cluster to write to, step by step: forecast, and what came of it."""

from dataclasses import replace

import pytest

from ledger.changeover.losses import (
    compared,
    compared_words,
    downtime_words,
    forecast_downtime,
    steps_without_a_cluster,
)
from ledger.changeover.plans import ChangeoverKind, FenceChoice, StepName, steps_of
from tests.support.seen_pairs import FAILOVER, SEEN, SWITCHOVER, made

_STEPS = steps_of(SWITCHOVER, is_promoted=True)


def forecast(partitions: int = 1_000, groups: int = 100, **measured: float) -> dict[str, object]:
    return forecast_downtime(
        SWITCHOVER, _STEPS, FenceChoice.CLOSED, partitions=partitions, groups=groups, measured=measured
    )


def test_applications_wait_from_the_stop_of_producers_until_they_are_started() -> None:
    waited_for = steps_without_a_cluster(SWITCHOVER, _STEPS)
    assert waited_for == _STEPS[_STEPS.index(StepName.FENCE) : _STEPS.index(StepName.START_APPLICATIONS)]
    of_failover = steps_of(FAILOVER, is_promoted=True)
    assert steps_without_a_cluster(FAILOVER, of_failover)[0] is StepName.CHECK, "from the decision on"


def test_what_was_never_done_is_forecast_by_its_size() -> None:
    small, large = forecast(partitions=10, groups=1), forecast()
    assert small["measured"] == large["measured"] == []
    assert sum(large["steps"].values()) == pytest.approx(large["seconds"])  # type: ignore[attr-defined]
    assert small["seconds"] < large["seconds"]  # type: ignore[operator]
    assert "an estimate" in downtime_words(large)


def test_what_was_done_before_is_forecast_by_what_it_took() -> None:
    found = forecast(cut=7.26, stop_groups=99.0, start_applications=50.0)
    assert (found["measured"], found["steps"]["cut"]) == (["cut"], 7.3)  # type: ignore[index]
    assert found["steps"]["stop_groups"] < 5, "people took most of it"  # type: ignore[index]
    assert "by what it took last (1 of" in downtime_words(found)
    assert "cut 7.3 s" in downtime_words(found)


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
