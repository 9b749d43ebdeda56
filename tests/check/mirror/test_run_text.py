"""What a run says: how far it is, what it did and left, what stopped alike, what troubles are of."""

import pytest

from ledger.facts.findings import Side
from ledger.facts.requests import OperatorRequest, Pause
from ledger.mirror.assignment import Troubles
from ledger.mirror.progress import Lag, RunEnd, RunProgress, RunSummary
from ledger.mirror.states import Unreached
from ledger.mirror.stops import StoppedPartition, stopped_entries
from ledger.mirror.text import Rate, end_line, progress_line, unfinished

# -- How it ended ----------------------------------------------------------------------------------

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
        asked_in_words=BY_ANNA,
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


# -- How far it is ---------------------------------------------------------------------------------

COPIED = "f: 1,200 records, 3.4 MB copied"


def line(lag: Lag, *, stopped: int = 0, paused: int = 0, rate: Rate | None = None) -> str:
    summary = RunSummary(records=1_200, bytes=3_400_000)
    return progress_line("f", RunProgress(summary, lag, stopped, paused, stale_after_s=15), rate)


@pytest.mark.parametrize(
    ("lag", "told"),
    [
        (Lag(1_500, 3, 12.4, 1.2), "lag 1,500 records, for 12 s or longer, as of 1 s ago"),
        (Lag(0, 3, None, 1.2), "lag 0 records, as of 1 s ago"),
        (Lag(90, 3, None, None), "lag 90 records"),
        (
            Lag(9, 3, 1.0, 2.0, unknown=1),
            "lag 9 records, for 1 s or longer, as of 2 s ago, and unknown for 1 partition",
        ),
        (Lag(0, 3, None, 15.0), "lag 0 records, as of 15 s ago"),
        (Lag(0, 3, None, 15.1), "lag unknown; it was 0 records 15 s ago"),
        (Lag(unknown=2), "lag unknown: the source has not answered yet for 2 partitions"),
        (Lag(), "no partition is being copied"),
    ],
)
def test_the_lag_is_told_with_its_age_or_as_unknown(lag: Lag, told: str) -> None:
    assert line(lag) == f"{COPIED}; {told}"


def test_the_rate_is_of_a_stretch_of_time() -> None:
    rate = Rate(records=6_000, bytes=15_000_000, seconds=30)
    assert line(Lag(), rate=rate) == (
        f"{COPIED}; 200 records/s, 0.5 MB/s in the last 30 s; no partition is being copied"
    )


def test_what_stands_still_is_counted() -> None:
    assert line(Lag(), stopped=1, paused=2).endswith("; 1 partition stopped; 2 partitions paused")


# -- What stopped alike ----------------------------------------------------------------------------

RESUME = "mirror-ledger resume f --topic"


def stopped(topic: str, partition: int, cause: str, message: str = "seen") -> StoppedPartition:
    return StoppedPartition(topic, partition, cause, message, "next step")


def test_partitions_of_one_topic_and_cause_are_one_entry_with_one_command() -> None:
    [entry] = stopped_entries("f", [stopped("t", number, "lost") for number in (3, 0, 1, 2, 7)])
    assert (entry.where, entry.cause, entry.next) == ("t partitions 0-3, 7", "lost", "next step")
    assert (entry.partitions, entry.commands) == ((0, 1, 2, 3, 7), (f"{RESUME} t",))
    assert entry.seen == "seen"


def test_one_partition_keeps_its_own_command() -> None:
    [entry] = stopped_entries("f", [stopped("t", 3, "lost")])
    assert (entry.where, entry.commands) == ("t partition 3", (f"{RESUME} t --partition 3",))


def test_where_causes_differ_no_command_is_for_the_whole_topic() -> None:
    """It would let the others go on as well, whatever stopped them."""
    denied, lost = stopped_entries(
        "f", [stopped("t", 0, "denied"), stopped("t", 1, "lost"), stopped("t", 2, "denied")]
    )
    assert (denied.where, lost.where) == ("t partitions 0, 2", "t partition 1")
    assert denied.commands == (f"{RESUME} t --partition 0", f"{RESUME} t --partition 2")
    assert lost.commands == (f"{RESUME} t --partition 1",)


def test_topics_have_entries_of_their_own() -> None:
    found = stopped_entries("f", [stopped(topic, number, "lost") for topic in "ba" for number in (0, 1)])
    assert [entry.commands for entry in found] == [(f"{RESUME} a",), (f"{RESUME} b",)]


def test_other_values_are_counted() -> None:
    messages = ["at 5", "at 5", "at 9", "at 7"]
    [entry] = stopped_entries("f", [stopped("t", n, "lost", told) for n, told in enumerate(messages)])
    assert entry.seen == "at partition 0: at 5 (at 2 others: the same with other values)"


def test_what_no_request_lets_go_on_has_no_command() -> None:
    found = stopped_entries("f", [stopped("t", 0, "shut_out"), stopped("t", 1, "a later cause")])
    assert [entry.commands for entry in found] == [(), ()]


# -- Troubles --------------------------------------------------------------------------------------


def test_writing_is_of_the_target() -> None:
    troubles = Troubles()
    assert troubles.unreached == ()
    troubles.trouble_writing("too few replicas")
    troubles.pause(Side.SOURCE, "refused", now=0.0)
    troubles.pause("ledger", "away", now=0.0)
    assert dict(troubles.unreached) == {Side.TARGET: "too few replicas", Side.SOURCE: "refused"}
    troubles.settle_trouble(Side.SOURCE)
    assert dict(troubles.unreached) == {Side.TARGET: "too few replicas"}


def test_a_quota_keeps_nobody_from_reading_or_writing() -> None:
    troubles = Troubles()
    for throttle_ms in (20, 850, 30):
        troubles.throttle(Side.TARGET, throttle_ms)
    troubles.settle_trouble(Side.TARGET)
    assert troubles.throttled_ms == ((Side.TARGET, 850),)
    assert (troubles.trouble, troubles.unreached) == ("the target throttles this client by a quota", ())
