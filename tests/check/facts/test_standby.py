"""When a standby takes a flow over and when it waits: the rule as a table, and silence on the standby's own clock."""

from dataclasses import replace

import pytest

from ledger.facts.roles import FlowSight, LastClaim, ProcessMark, Silence, StandbyVerdict, standby_verdict

HERE, ELSEWHERE = "host-a:11:5:boot-1", "host-b:11:5:boot-1"
REBOOTED = "host-a:11:5:boot-2"
OWN = ProcessMark("host-a", 12, 6, "boot-1")
HEARTBEAT_MS = 1_000
BEGAN = 5
"""Place of the driver's start among operations."""
CLAIM = LastClaim(1, HERE, False, 10_000, 5_000)


def verdict(seen: FlowSight, *, alive: bool = False, silent_s: float = 0.0) -> StandbyVerdict:
    return standby_verdict(
        seen, own=OWN, holder_alive=alive, silent_seconds=silent_s, heartbeat_ms=HEARTBEAT_MS
    )


@pytest.mark.parametrize(
    ("host", "released", "alive", "silent_s", "expected"),
    [
        (HERE, True, True, 0.0, StandbyVerdict.ENDED),
        (HERE, False, True, 0.0, StandbyVerdict.AT_WORK),
        (HERE, False, True, 3_600.0, StandbyVerdict.AT_WORK),
        (HERE, False, False, 0.0, StandbyVerdict.DEAD),
        (ELSEWHERE, True, False, 0.0, StandbyVerdict.ENDED),
        (ELSEWHERE, False, False, 2.999, StandbyVerdict.AT_WORK),
        (ELSEWHERE, False, False, 3.0, StandbyVerdict.SILENT),
        (REBOOTED, False, False, 2.999, StandbyVerdict.AT_WORK),
        (REBOOTED, False, False, 3.0, StandbyVerdict.SILENT),
    ],
)
def test_who_ended_is_followed_unless_that_was_asked_for(
    host: str, released: bool, alive: bool, silent_s: float, expected: StandbyVerdict
) -> None:
    claim = replace(CLAIM, host=host, released=released)
    ended = expected is not StandbyVerdict.AT_WORK
    assert verdict(FlowSight(claim, BEGAN), alive=alive, silent_s=silent_s) is expected
    assert expected.takes_over is ended
    for last_stop, stopped in ((BEGAN - 1, False), (BEGAN + 1, True)):
        found = verdict(FlowSight(claim, BEGAN, last_stop), alive=alive, silent_s=silent_s)
        assert found is (StandbyVerdict.STOPPED if stopped and ended else expected)
    no_driver = verdict(FlowSight(claim, None, BEGAN + 1), alive=alive, silent_s=silent_s)
    assert no_driver is (StandbyVerdict.NO_DRIVER if ended else expected)


def test_what_waits() -> None:
    assert verdict(FlowSight(None)) is StandbyVerdict.NEVER_RAN
    assert {one for one in StandbyVerdict if not one.takes_over} == {
        StandbyVerdict.NEVER_RAN,
        StandbyVerdict.AT_WORK,
        StandbyVerdict.NO_DRIVER,
        StandbyVerdict.STOPPED,
    }


def test_silence_is_counted_from_the_first_sight_of_the_last_append_whatever_time_that_states() -> None:
    silence, claim = Silence(), replace(CLAIM, last_recorded_at_ms=9_999_999_999_999)
    assert [silence.seconds(claim, now=now) for now in (50.0, 52.0)] == [0.0, 2.0]
    earlier = replace(claim, last_recorded_at_ms=1)
    assert [silence.seconds(earlier, now=now) for now in (53.0, 54.0)] == [0.0, 1.0]
    later_epoch = replace(earlier, epoch=2)
    assert [silence.seconds(later_epoch, now=now) for now in (55.0, 58.0)] == [0.0, 3.0]
    assert silence.seconds(None, now=60.0) == 0.0


def test_silence_begins_anew_after_a_time_in_which_nobody_could_look() -> None:
    silence = Silence()
    silence.seconds(CLAIM, now=50.0)
    silence.forget()
    assert [silence.seconds(CLAIM, now=now) for now in (90.0, 91.0)] == [0.0, 1.0]
