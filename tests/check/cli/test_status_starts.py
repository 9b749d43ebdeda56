"""`status` while a flow starts, and after a start that came to nothing."""

import pytest

from tests.support.operated import FLOW, Operated, mark_of_a_gone_process, own_mark
from tests.support.told_status import report, text


def test_a_flow_is_starting_from_the_command_on(idle: Operated) -> None:
    idle.starting(own_mark())
    told = text(idle, "--check")
    assert told.startswith("east-to-west: starting since 20")
    assert "driver    starting since 20" in told
    assert report(idle)["driver"]["state"] == "starting"
    assert (
        "starting on" in idle.command("pause", FLOW).err or "has never run" in idle.command("pause", FLOW).err
    )
    idle.writer("claimed", own_mark())
    assert report(idle)["driver"]["state"] == "running"


@pytest.mark.parametrize(
    ("mark", "age_s", "state", "failed"),
    [
        (mark_of_a_gone_process(), 5, "never_ran", True),
        (own_mark(), 600, "starting", False),
        ("elsewhere:1:1", 170, "starting", False),
        ("elsewhere:1:1", 190, "never_ran", True),
    ],
    ids=["its-process-is-gone", "takes-long", "elsewhere", "elsewhere-long-ago"],
)
def test_a_start_that_came_to_nothing(
    idle: Operated, mark: str, age_s: int, state: str, failed: bool
) -> None:
    idle.starting(mark, at_ms=idle.clock.now_ms() - age_s * 1000)
    found = report(idle)
    assert found["driver"]["state"] == state
    assert (found["driver"]["failed_start_at_ms"] is not None) == failed
    told = [reason for reason in found["needs_attention"] if "ended before it claimed the flow" in reason]
    assert len(told) == failed
    told = [
        reason for reason in found["needs_attention"] if "its driver has been starting for 10 min" in reason
    ]
    assert len(told) == (age_s == 600)


def test_a_dead_driver_that_is_started_again_is_starting(idle: Operated) -> None:
    idle.writer("claimed", mark_of_a_gone_process())
    idle.starting(own_mark())
    found = report(idle, "--check")
    assert (found["driver"]["state"], found["needs_attention"]) == ("starting", [])


def test_a_driver_at_work_is_running_whoever_else_starts(at_work: Operated) -> None:
    at_work.starting(own_mark())
    assert report(at_work)["driver"]["state"] == "running"
