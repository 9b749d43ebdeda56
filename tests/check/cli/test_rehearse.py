"""`rehearse failover`: now, and at instants of the past; the ledger stays as it is."""

import json
import re
import time
from typing import Any

import pytest

from tests.support.commands import UnreachableFlow
from tests.support.operated import Operated, lag_by_thirty
from tests.support.recorded import operations

WAY = ("--from", "east", "--to", "west")
NOW = ("rehearse", "failover", *WAY, "--now")
PLAN = ("plan", "failover", *WAY, "-o", "json")
BLOCKED = 4


@pytest.fixture
def lagging(idle: Operated) -> Operated:
    """30 records behind."""
    lag_by_thirty(idle)
    return idle


def commits(operated: Operated) -> int:
    return sum(UnreachableFlow(operated.config, 0, operated.capture).commits().values())


def past(
    operated: Operated, since: str, until: str, every: str = "1s", *, code: int = 0
) -> list[dict[str, Any]]:
    done = operated.command(
        *("rehearse", "failover", *WAY, "--every", every, "--since", since, "--until", until), "-o", "json"
    )
    assert done.code == code, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def test_at_the_time_of_a_plan_it_says_what_the_plan_said(lagging: Operated) -> None:
    planned = lagging.command(*PLAN)
    assert planned.code == BLOCKED, "no cluster answers"
    [said] = [one["forecast"] for one in operations(lagging.config, "plan")]
    at_ms = lagging.clock.now_ms()
    assert (said["records_lost"], said["repeated"]) == (30, 0)
    time.sleep(0.02)
    lagging.copied({("orders", 0): 130}, writer_epoch=2)
    lagging.watermark("orders", 0, end=500)
    before = commits(lagging)
    [row] = past(lagging, str(at_ms), str(at_ms))
    for name in ("records_lost", "seconds_lost", "repeated"):
        assert row[name] == said[name], name
    assert (row["at_ms"], row["status"]) == (at_ms, "rehearsed")
    assert (row["groups"], row["most_repeated"], row["apply_seconds"]) == (1, 0, said["downtime"]["seconds"])
    [now] = past(lagging, str(later := lagging.clock.now_ms()), str(later))
    assert now["records_lost"] == 370, "what was recorded later counts later"
    assert commits(lagging) == before


def test_instants_before_the_ledger_are_said(lagging: Operated) -> None:
    at_ms = lagging.clock.now_ms()
    words = ("--every", "1000000s", "--since", str(at_ms - 10**9), "--until", str(at_ms), "-o", "json")
    done = lagging.command("rehearse", "failover", *WAY, *words)
    assert done.code == 0, done.err
    assert "1 instant before the ledger began: nothing is known of them" in done.err
    assert "east was taken for lost at each instant" in done.err
    before, then = json.loads(done.out)
    assert (before["status"], then["status"]) == ("before_ledger", "rehearsed")
    assert before["words"].startswith("the ledger begins at ")
    assert {before["records_lost"], before["repeated"], before["groups"], before["apply_seconds"]} == {None}
    assert then["records_lost"] == 30


def test_a_ledger_without_a_copy_has_no_plan_at_any_instant(idle: Operated) -> None:
    at_ms = str(idle.clock.now_ms())
    [row] = past(idle, at_ms, at_ms, code=5)
    assert (row["status"], row["records_lost"]) == ("no_plan", None)
    assert row["words"]


def test_now_says_what_is_silent_lost_and_in_the_way(lagging: Operated) -> None:
    before = commits(lagging)
    done = lagging.command(*NOW)
    assert done.code == BLOCKED
    assert "a failover now is blocked: fence, groups_unknown, target_unreachable" in done.err
    lines = {line[2:12].strip(): line[12:] for line in done.out.splitlines()[1:]}
    assert lines["silent"].startswith("east was read last ")
    assert "and does not answer; a try now: " in lines["silent"]
    assert re.match(r"[0-9,]+( to [0-9,]+)? records not copied", lines["lost"])
    assert lines["groups"] == "1 of 1 group can move"
    assert lines["repeated"].startswith("at least 0 records by 1 group")
    assert commits(lagging) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--now", "--every", "1h"), "a rehearsal is --now, or of the past"),
        ((), "a rehearsal is --now, or of the past"),
        (("--now", "--since", "0"), "--since and --until go with --every"),
        (("--every", "1h"), "--every needs --since TIME"),
        (("--every", "hourly", "--since", "0"), "--every takes a number and s, min, h or d"),
        (("--every", "0s", "--since", "0"), "--every takes a number and s, min, h or d"),
        (("--every", "1s", "--since", "0", "--until", "99999999999999"), "Take a longer --every"),
        (("--every", "400d", "--since", "0", "--until", "9999999999999"), "has not come yet"),
        (("--every", "1h", "--since", "yesterday"), "--since takes a time"),
    ],
)
def test_what_cannot_be_answered_is_refused(idle: Operated, words: tuple[str, ...], said: str) -> None:
    done = idle.command("rehearse", "failover", *WAY, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
