"""`status`: where a flow stands, why, what to type; and `--check` for those who watch it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledger.adapters.system import SystemClock
from ledger.domain.time_words import instant
from tests.support.operated import FLOW, Operated, mark_of_a_gone_process, operated, own_mark


@pytest.fixture
def flow(idle: Operated) -> Operated:
    """A flow with a driver at work: this process."""
    idle.writer("claimed", own_mark(), epoch=3)
    idle.copied({("orders", 0): 100, ("orders", 1): 50})
    idle.watermark("orders", 0, end=1_304)
    idle.watermark("orders", 1, end=50)
    return idle


def text(flow: Operated, *arguments: str, code: int = 0) -> str:
    done = flow.command("status", *arguments)
    assert done.code == code, done.err
    assert "cut v1." in done.err
    return done.out


def flat(told: str) -> str:
    """Without the folds: one blank between words."""
    return " ".join(told.split())


def report(flow: Operated, *arguments: str, code: int = 0) -> dict[str, Any]:
    [found] = json.loads(text(flow, FLOW, "-o", "json", *arguments, code=code))
    assert isinstance(found, dict)
    return found


@contextmanager
def time_machine(*, seconds: int) -> Iterator[None]:
    """Programs that look at the clock meanwhile find that so much time has passed."""
    now_ms = SystemClock.now_ms
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "now_ms", lambda clock: now_ms(clock) + seconds * 1000)
        yield


def test_a_flow_at_work_needs_nothing(flow: Operated) -> None:
    told = text(flow, "--check")
    assert told.startswith("east-to-west: nothing needs attention\n")
    assert "driver    running: epoch 3, process" in told
    lag = r"lag 1,204 records, about 0 bytes, for an unknown time in 2 partitions; measured \S+ s ago"
    assert re.search(lag, flat(told)), told
    assert max(map(len, told.splitlines())) <= 80
    for absent in ("stopped", "gone", "loss", "paused", "waiting", "finding", "receipt", "east.orders"):
        assert absent not in told


@pytest.mark.parametrize(
    ("event", "mark", "at_ms", "state", "attention"),
    [
        ("claimed", own_mark(), None, "running", None),
        ("alive", "elsewhere:1:1", None, "running", None),
        ("released", mark_of_a_gone_process(), 1_000, "released", None),
        ("claimed", mark_of_a_gone_process(), None, "dead", "its driver is dead: nothing recorded since 20"),
        ("alive", mark_of_a_gone_process(), None, "dead", "its driver is dead: nothing recorded since 20"),
        ("claimed", "elsewhere:1:1", 1_000, "silent", "its driver is silent: nothing recorded since 1970"),
    ],
    ids=["claimed", "alive", "released", "dead", "dead-after-a-sign", "silent"],
)
def test_states_of_a_driver(
    idle: Operated, event: str, mark: str, at_ms: int | None, state: str, attention: str | None
) -> None:
    claimed_at_ms = idle.clock.now_ms() - 60_000
    idle.writer("claimed", mark, at_ms=claimed_at_ms)
    idle.writer(event, mark, round_number=1, at_ms=at_ms)
    found = report(idle, "--check", code=4 if attention else 0)
    assert (found["driver"]["state"], found["driver"]["claimed_at_ms"]) == (state, claimed_at_ms)
    assert [reason.startswith(attention or "?") for reason in found["needs_attention"]] == [True] * bool(
        attention
    )


SWEEPS_S = 900
"""Three full sweeps of the configuration's default."""
INTERVALS_S = 180
"""Three intervals of its default."""


def test_a_running_flow_whose_clusters_nobody_records_needs_attention(idle: Operated) -> None:
    now_ms = idle.clock.now_ms()
    idle.writer("claimed", own_mark(), at_ms=now_ms - 2 * INTERVALS_S * 1000)
    idle.writer("alive", own_mark(), round_number=1)
    idle.watermark("orders", 0, end=5, at_ms=now_ms - (INTERVALS_S + 60) * 1000)
    found = report(idle, "--check", code=4)
    since = instant(now_ms - (INTERVALS_S + 60) * 1000)
    assert found["needs_attention"] == [f"nobody records east since {since}", "nobody has recorded west"]
    assert [recording["ends_at_ms"] is None for recording in found["recordings"]] == [False, True]
    told = text(idle)
    assert "recorded  source east: groups never, ends 4 min" in told
    assert "recorded  target west: groups never, ends never" in told
    idle.sign(round_number=2, at_ms=now_ms - (INTERVALS_S - 60) * 1000)
    assert report(idle, "--check", code=4)["needs_attention"] == ["nobody has recorded west"]


def test_lag_that_was_not_measured_lately_is_unknown_and_needs_attention(idle: Operated) -> None:
    """Also where nothing was to be copied: it is not 0 any more."""
    now_ms = idle.clock.now_ms()
    long_ago_ms = now_ms - (INTERVALS_S + 60) * 1000
    idle.writer("claimed", own_mark(), at_ms=long_ago_ms - 2_000)
    idle.writer("alive", own_mark(), round_number=1)
    idle.copied({("orders", 0): 5, ("orders", 1): 5}, at_ms=long_ago_ms - 1_000)
    idle.watermark("orders", 0, end=5, at_ms=long_ago_ms)
    idle.watermark("orders", 1, end=12, at_ms=long_ago_ms)
    unknown = f"lag is unknown: last known 7 records at {instant(long_ago_ms)}"
    found = report(idle, "--check", code=4)
    assert unknown in found["needs_attention"]
    assert (found["lag"]["state"], found["lag"]["records"], found["lag"]["last_known_records"]) == (
        "unknown",
        None,
        7,
    )
    assert {row["lag_status"] for row in found["partitions"]} == {"unknown"}
    assert {row["lag_records"] for row in found["partitions"]} == {None}
    told = flat(text(idle))
    assert f"lag unknown, last known 7 records at {instant(long_ago_ms)} (4 min" in told
    idle.sign(round_number=2)
    idle.sign(round_number=2, cluster="west")
    found = report(idle, "--check")
    assert (found["lag"]["state"], found["lag"]["records"], found["lag"]["age_seconds"] < 60) == (
        "behind",
        7,
        True,
    )
    assert (found["lag"]["seconds"] >= INTERVALS_S, found["lag"]["seconds_bound"]) == (True, "at_least")


def test_the_query_of_lag_alone_knows_what_is_too_old(idle: Operated) -> None:
    long_ago_ms = idle.clock.now_ms() - (INTERVALS_S + 60) * 1000
    idle.writer("claimed", own_mark(), at_ms=long_ago_ms - 2_000)
    idle.copied({("orders", 0): 5}, at_ms=long_ago_ms - 1_000)
    idle.watermark("orders", 0, end=5, at_ms=long_ago_ms)

    def lag(*arguments: str) -> tuple[str, int | None, int]:
        asked = ("query", "replication_lag", "--param", f"flow={FLOW}", "-o", "json", *arguments)
        [row] = json.loads(idle.command(*asked).out)
        return row["status"], row["lag_records"], row["measured_at_ms"]

    assert lag() == ("unknown", None, long_ago_ms)
    assert lag("--as-of", str(long_ago_ms + 1_000)) == ("caught_up", 0, long_ago_ms)
    assert lag("--param", f"fresh_since_ms={long_ago_ms}") == ("caught_up", 0, long_ago_ms)


def test_a_source_that_does_not_answer_makes_the_last_measurement_the_last_that_is_known(
    flow: Operated,
) -> None:
    source = {
        "finding": "source_unreachable",
        "partition": None,
        "message": "east does not answer: refused",
        "next": "look",
    }
    flow.operation("finding_raised", {**source, "topic": "events"})
    assert report(flow, "--check", code=4)["lag"]["records"] == 1_204
    flow.operation("finding_raised", {**source, "topic": None})
    found = report(flow, "--check", code=4)
    assert (found["lag"]["state"], found["lag"]["records"]) == ("unknown", None)
    assert found["needs_attention"][0].startswith("source east does not answer since 20")
    assert "lag is unknown: last known 1,204 records at" in found["needs_attention"][2]


def test_partitions_that_were_never_measured_are_told_and_need_attention_in_time(flow: Operated) -> None:
    flow.copied({("events", 0): 7})
    told = text(flow, "--check")
    assert told.startswith("east-to-west: lag of 1 partition is unknown: never measured\n")
    assert "lag unknown of 1 of 3 partitions, never measured; 1,204 records" in flat(told)
    flow.copied({("older", 0): 7}, at_ms=flow.clock.now_ms() - (INTERVALS_S + 60) * 1000)
    assert report(flow, "--check", code=4)["needs_attention"] == [
        "lag of 2 partitions is unknown: never measured"
    ]


def test_topics_that_the_flow_does_not_mirror_any_more_are_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_ledger: Path
) -> None:
    flow = operated(tmp_path, empty_ledger, capsys, topics='["orders"]')
    flow.writer("claimed", own_mark())
    flow.copied({("orders", 0): 5, ("events", 0): 5}, at_ms=1_000)
    flow.watermark("orders", 0, end=5)
    lag = report(flow, "--check")["lag"]
    assert (lag["state"], lag["partitions"]) == ("caught_up", 1)


def test_a_flow_that_ended_is_not_said_to_be_up_to_date(flow: Operated) -> None:
    ended_ms = flow.clock.now_ms()
    flow.writer("released", own_mark(), epoch=3, round_number=9, at_ms=ended_ms)
    told = text(flow, "--check")
    assert told.startswith(f"east-to-west: ended at {instant(ended_ms)}\n")
    with time_machine(seconds=INTERVALS_S + 60):
        told = flat(text(flow, "--check"))
        assert (
            f"east-to-west: ended at {instant(ended_ms)}; lag is unknown: last known 1,204 records at" in told
        )


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
    assert any("ended before it claimed the flow" in remark for remark in found["remarks"]) == failed
    told = "its driver has been starting for 10 min"
    assert [told in reason for reason in found["needs_attention"]] == [True] * (age_s == 600)


def test_a_dead_driver_that_is_started_again_is_starting(idle: Operated) -> None:
    idle.writer("claimed", mark_of_a_gone_process())
    idle.starting(own_mark())
    found = report(idle, "--check")
    assert (found["driver"]["state"], found["needs_attention"]) == ("starting", [])


def test_a_driver_at_work_is_running_whoever_else_starts(flow: Operated) -> None:
    flow.starting(own_mark())
    assert report(flow)["driver"]["state"] == "running"


def test_a_flow_that_never_ran(idle: Operated) -> None:
    assert "driver    has never run" in text(idle, "--check")
    assert report(idle)["driver"] == {
        "state": "never_ran",
        **dict.fromkeys(
            (
                *("host", "process", "epoch", "claimed_at_ms", "last_recorded_at_ms", "silent_seconds"),
                *("starting_since_ms", "failed_start_at_ms"),
            )
        ),
    }


CAUSES = {
    "a cause of a later version": None,
    "foreign_write": "mirror-ledger accept-foreign east-to-west --topic orders --partition 1",
    "lost": "mirror-ledger resume east-to-west --topic orders --partition 2",
    "shut_out": None,
    "target_out_of_range": "mirror-ledger accept-foreign east-to-west --topic orders --partition 4",
}
"""Why partitions 0 to 4 stopped, and what to type."""


def test_a_stopped_partition_has_a_command_to_type(flow: Operated) -> None:
    for partition, cause in enumerate(CAUSES):
        flow.stopped("orders", partition, cause)
    told = text(flow, FLOW, "--check", code=4)
    assert told.startswith("east-to-west: 5 partitions stopped since 20")
    stopped = report(flow)["stopped"]
    for (partition, (cause, command)), stop in zip(enumerate(CAUSES.items()), stopped, strict=True):
        since = instant(stop.pop("stopped_at_ms"))
        said = f"stopped orders partition {partition}: {cause} since {since}: what was seen next: what to do "
        assert said + (command or "") in flat(told)
    assert [line for line in told.splitlines() if "mirror-ledger" in line] == [
        " " * 12 + command for command in CAUSES.values() if command is not None
    ]
    assert stopped == [
        {
            "topic": "orders",
            "partitions": [partition],
            "cause": cause,
            "message": "what was seen",
            "differing": 0,
            "next": "what to do",
            "commands": [] if command is None else [command],
        }
        for partition, (cause, command) in enumerate(CAUSES.items())
    ]


def test_several_partitions_that_stopped_alike_are_one_entry_with_one_command(flow: Operated) -> None:
    for partition in (0, 1, 2, 5):
        flow.stopped("orders", partition, "lost")
    told = text(flow, FLOW, "--check", code=4)
    assert told.startswith("east-to-west: 4 partitions stopped since 20")
    assert "stopped   orders partitions 0-2, 5: lost since 20" in told
    assert [line.strip() for line in told.splitlines() if "mirror-ledger" in line] == [
        "mirror-ledger resume east-to-west --topic orders"
    ]
    [entry] = report(flow)["stopped"]
    assert entry["partitions"] == [0, 1, 2, 5]
    assert {row["stop_message"] for row in report(flow)["partitions"]} == {"what was seen"}


def test_a_resumed_partition_is_not_stopped(flow: Operated) -> None:
    flow.stopped("orders", 1, "lost")
    flow.operation("partition_resumed", {"topic": "orders", "topic_id": "id-of-orders", "partition": 1})
    assert "stopped" not in text(flow, "--check")


def test_pauses_and_waiting_requests_are_told_and_pass_the_check(flow: Operated) -> None:
    answered = flow.operation("pause", {"topic": "orders"})
    flow.receipt(answered, "pause", "done", "orders is paused")
    assert flow.command("pause", FLOW, "--reason", "a move", "--ticket", "OPS-7").code == 0
    told = text(flow, "--check")
    assert told.startswith("east-to-west: the whole flow is paused; paused: orders\n")
    told = flat(told)
    assert re.search(
        r"paused the whole flow, by \S+ 20\S+ \S+, a move, OPS-7; operation \S+ paused topic orders, by", told
    )
    [operation] = flow.operations()
    assert f", a move, OPS-7; operation {operation['operation_id']} " in told
    assert "waiting pause of the flow, asked for by" in told
    assert "receipt pause of topic orders done" in told
    assert told.endswith(f"orders is paused; operation {answered}")
    found = report(flow)
    assert found["paused"] == {"whole_flow": True, "topics": ["orders"]}
    assert [waiting["operation_id"] for waiting in found["waiting"]] == [operation["operation_id"]]
    assert [(receipt["request"], receipt["result"]) for receipt in found["receipts"]] == [(answered, "done")]


def test_the_last_receipts_come_first(flow: Operated) -> None:
    requests = [flow.operation("resume", {"topic": "orders", "partition": 1}) for _ in range(7)]
    for number, request in enumerate(requests):
        flow.receipt(request, "resume", "refused", f"answer {number}")
    flow.receipt(requests[0], "resume", "done", "the first answer counts")
    receipts = report(flow)["receipts"]
    assert [receipt["message"] for receipt in receipts] == [f"answer {number}" for number in (6, 5, 4, 3, 2)]
    assert {receipt["operator"] for receipt in receipts} == {"somebody"}
    assert [(receipts[0][key]) for key in ("topic", "partition", "offset")] == ["orders", 1, None]


def test_losses_are_told_by_cause_and_pass_the_check(flow: Operated) -> None:
    flow.append(
        "offset_syncs",
        flow.lost_row("orders", 0, 100, 140),
        flow.lost_row("orders", 0, 140, 150, round=3, cause="skipped"),
        flow.lost_row("orders", 1, 50, 52),
        flow.lost_row("orders", 1, 51, 52, round=3, kind="superseded", cause="resync"),
        flow.lost_row(
            "orders", 1, 51, 51, round=4, kind="unpaired", cause="accepted", target_end=54, records=3
        ),
        {"flow": "west-to-east", "kind": "lost", "cause": "deleted_records", "source_end": 9},
    )
    told = flat(text(flow, "--check"))
    assert "loss lost, retention: 41 source offsets, last recorded 20" in told
    assert "loss unpaired, accepted: 3 records at the target, last recorded 20" in told
    assert [
        (loss["kind"], loss["cause"], loss["source_offsets"], loss["records"], loss["rows"])
        for loss in report(flow)["losses"]
    ] == [
        ("lost", "retention", 41, 0, 2),
        ("lost", "skipped", 10, 0, 1),
        ("superseded", "resync", 1, 0, 1),
        ("unpaired", "accepted", 0, 3, 1),
    ]


def test_a_loss_that_was_taken_back_whole_is_none(flow: Operated) -> None:
    flow.append(
        "offset_syncs",
        flow.lost_row("orders", 1, 50, 52),
        flow.lost_row("orders", 1, 50, 52, round=3, kind="superseded", cause="resync"),
    )
    assert [loss["kind"] for loss in report(flow)["losses"]] == ["superseded"]


def test_what_stopped_and_is_gone_at_the_source_needs_nothing(flow: Operated) -> None:
    flow.stopped("orders", 0, "denied")
    flow.topic("orders", "observed")
    assert flow.command("status", "--check").code == 4
    flow.topic("orders", "deleted", first_round=2)
    flow.copied({("events", 0): 7})
    flow.topic("events", "observed", "deleted")
    told = text(flow, "--check")
    assert told.startswith("east-to-west: nothing needs attention\n")
    assert (
        "gone orders partition 0: its topic, id id-of-orders, ended at the source while it was stopped "
        "(denied); 1,204 records were not copied"
    ) in flat(told)
    assert (
        "events partition 0: its topic, id id-of-events, ended at the source; an unknown number of"
        in flat(told)
    )
    assert "lag       no partition is left to copy" in told
    found = report(flow)
    assert (found["stopped"], found["lag"]["state"], found["lag"]["unknown_partitions"]) == (
        [],
        "caught_up",
        0,
    )
    assert [gone["stop_cause"] for gone in found["gone"]] == [None, "denied"]
    assert "neither paused nor stopped" in flow.command("resume", FLOW, "--topic", "orders").err


def test_a_recreated_topic_that_stopped_is_not_gone(flow: Operated) -> None:
    flow.topic("orders", "observed")
    flow.topic("orders", "recreated", topic_id="new", first_round=2)
    flow.stopped("orders", 0, "source_recreated", topic_id="new")
    assert "stopped   orders partition 0: source_recreated since" in text(flow, "--check", code=4)


def test_all_copied_before_it_ended_is_not_worth_a_line(flow: Operated) -> None:
    flow.copied({("events", 0): 7})
    flow.watermark("events", 0, end=7)
    flow.topic("events", "observed", "deleted")
    assert "gone" not in text(flow)


def test_open_findings_are_told_until_they_are_cleared(flow: Operated) -> None:
    said = {"message": "compression.type is gzip", "next": "set it"}
    for topic in ("orders", "events"):
        found = {"finding": "recompressed", "topic": topic, "partition": None}
        flow.operation("finding_raised", {**found, **said})
    flow.operation("finding_cleared", found)
    told = text(flow, "--check", code=4)
    [finding] = report(flow)["findings"]
    since = instant(finding["open_since_ms"])
    assert told.startswith(f"east-to-west: 1 finding open since {since}\n")
    assert (
        f"finding recompressed of topic orders since {since}: compression.type is gzip next: set it"
        in flat(told)
    )
    assert finding["topic"] == "orders"
    assert finding["open_since_ms"] == finding["raised_at_ms"] > 0


def test_what_other_flows_have_does_not_show(flow: Operated) -> None:
    flow.operation("pause", {"topic": None}, flow="west-to-east")
    finding = {"finding": "f", "topic": None, "partition": None, "message": "m"}
    flow.operation("finding_raised", finding, flow="west-to-east")
    told = text(flow, "--check")
    assert "nothing needs attention" in told
    assert "paused" not in told


def test_a_past_cut_does_not_tell_whether_the_driver_lived(flow: Operated) -> None:
    cut = flow.command("query", "replication_lag", "--param", f"flow={FLOW}").err.split()[-1]
    flow.stopped("orders", 0, "lost")
    told = text(flow, "--as-of", cut, "--check")
    assert "driver    claimed: epoch 3" in told
    assert "stopped" not in told


def test_partitions_as_a_table_and_as_csv(flow: Operated) -> None:
    assert "east.orders" in text(flow, "--partitions")
    lines = text(flow, "-o", "csv").splitlines()
    assert lines[0].startswith("flow,source_topic,")
    assert len(lines) == 3
