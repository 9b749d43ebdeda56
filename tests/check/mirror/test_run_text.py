"""How a run says what it did, how it ended, and what it left."""

import pytest

from ledger.facts.requests import AskedBy, OperatorRequest, Pause
from ledger.mirror.progress import RunEnd, RunSummary
from ledger.mirror.states import Unreached
from ledger.mirror.stops import StoppedPartition
from ledger.mirror.text import end_line, unfinished

COUNTED = (
    "1,200 records, 3.4 MB in 5 rounds; batches: 7 raw, 1 record path; 0 recovered records, 0 lost offsets"
)
BY_ANNA = "by anna 1970-01-01 00:00:00Z, a move; operation op-1"


def summary(end: RunEnd | None = None) -> RunSummary:
    return RunSummary(rounds=5, records=1_200, bytes=3_400_000, raw_batches=7, record_path_batches=1, end=end)


def pause(topic: str | None) -> OperatorRequest:
    return OperatorRequest(
        operation_id="op-1",
        asked=Pause(topic=topic),
        requested_at_ms=0,
        asked_by=AskedBy("anna", "a move", None),
    )


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (RunEnd.CAUGHT_UP, "caught up"),
        (RunEnd.NOT_CAUGHT_UP, "not caught up"),
        (RunEnd.SIGNALLED, "ended by a signal, after its round"),
        (RunEnd.ASKED_TO_STOP, "ended as asked by ben"),
    ],
)
def test_the_last_line_says_how_it_ended_and_what_it_did(end: RunEnd, told: str) -> None:
    ended = summary(end)
    ended.asked_by = "by ben"
    assert end_line("f", ended) == f"f: {told}: {COUNTED}"


def test_a_run_that_copied_all_left_nothing() -> None:
    assert unfinished("f", summary(RunEnd.CAUGHT_UP)) is None
    ended = summary(RunEnd.ASKED_TO_STOP)
    ended.paused = [pause(None)]
    assert unfinished("f", ended) is None, "it had no end to reach"
    assert "paused: the whole flow" in end_line("f", ended)


def test_what_is_paused_is_told_with_who_and_how_far_it_came() -> None:
    ended = summary(RunEnd.NOT_CAUGHT_UP)
    ended.paused = [pause("orders")]
    ended.unreached = [Unreached("orders", number, 10, 1_010) for number in range(5)]
    assert end_line("f", ended) == f"f: not caught up; paused: topic orders: {COUNTED}"
    assert unfinished("f", ended) == (
        "f: paused: topic orders\n"
        f"  paused    topic orders, {BY_ANNA}: 5,000 source offsets of 5 partitions left to copy: "
        "orders partition 0 at 10 of 1010, orders partition 1 at 10 of 1010, orders partition 2 at 10 of 1010 "
        "and 2 more partitions\n"
        "            mirror-ledger resume f --topic orders"
    )


def test_a_pause_is_told_though_nothing_is_left() -> None:
    ended = summary(RunEnd.NOT_CAUGHT_UP)
    ended.paused = [pause(None)]
    told = unfinished("f", ended)
    assert told is not None
    assert "nothing of what the source had when the run began is left to copy" in told
    assert told.endswith("mirror-ledger resume f")


def test_stops_are_told_apart_from_pauses() -> None:
    ended = summary(RunEnd.NOT_CAUGHT_UP)
    ended.stopped = [StoppedPartition("t", number, "lost", "seen", "next step") for number in (0, 1)]
    ended.blocked = {"bad": "no topic may be created"}
    ended.paused = [pause("orders")]
    assert str(unfinished("f", ended)).splitlines()[:5] == [
        "f: 2 partitions stopped and need a decision; 1 topic cannot be copied; paused: topic orders",
        "  stopped   t partitions 0-1: lost: seen",
        "            next: next step",
        "            mirror-ledger resume f --topic t",
        "  blocked   topic bad: no topic may be created",
    ]


@pytest.mark.parametrize("end", [RunEnd.SIGNALLED, RunEnd.ASKED_TO_STOP])
def test_a_run_that_was_ended_before_it_had_caught_up_says_so(end: RunEnd) -> None:
    ended = summary(end)
    ended.unreached = [Unreached("orders", 0, 9, 10)]
    assert ", before it had caught up: " in end_line("f", ended)
    assert unfinished("f", ended) == (
        "f: ended before it had caught up; 1 source offset of 1 partition left to copy: orders partition 0 at 9 of 10"
    )
