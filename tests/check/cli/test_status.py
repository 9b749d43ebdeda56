"""`status`: where a flow stands, why, what to type; and `--check` for those who watch it."""

import json
import re
from typing import Any

import pytest

from tests.support.operated import FLOW, Operated, mark_of_a_gone_process, own_mark


@pytest.fixture
def flow(idle: Operated) -> Operated:
    """A flow with a driver at work: this process."""
    idle.writer("claimed", own_mark(), epoch=3)
    idle.copied({("orders", 0): 100, ("orders", 1): 50})
    idle.watermark("orders", 0, end=1_304)
    return idle


def text(flow: Operated, *arguments: str, code: int = 0) -> str:
    done = flow.command("status", *arguments)
    assert done.code == code, done.err
    assert "cut v1." in done.err
    return done.out


def report(flow: Operated, *arguments: str, code: int = 0) -> dict[str, Any]:
    [found] = json.loads(text(flow, FLOW, "-o", "json", *arguments, code=code))
    assert isinstance(found, dict)
    return found


def test_a_flow_at_work_needs_nothing(flow: Operated) -> None:
    told = text(flow, "--check")
    assert told.startswith("east-to-west: nothing needs attention\n")
    assert "driver    running: epoch 3, process" in told
    assert "lag       1,204 records in 2 partitions; the source ends of 1 were never read" in told
    for absent in ("stopped", "gone", "loss", "paused", "waiting", "finding", "receipt", "east.orders"):
        assert absent not in told


@pytest.mark.parametrize(
    ("event", "mark", "at_ms", "state", "attention"),
    [
        ("claimed", own_mark(), None, "running", []),
        ("alive", "elsewhere:1:1", None, "running", []),
        ("released", mark_of_a_gone_process(), 1_000, "released", []),
        ("claimed", mark_of_a_gone_process(), None, "dead", ["its driver is dead"]),
        ("alive", mark_of_a_gone_process(), None, "dead", ["its driver is dead"]),
        ("claimed", "elsewhere:1:1", 1_000, "silent", ["its driver is silent"]),
    ],
    ids=["claimed", "alive", "released", "dead", "dead-after-a-sign", "silent"],
)
def test_states_of_a_driver(
    idle: Operated, event: str, mark: str, at_ms: int | None, state: str, attention: list[str]
) -> None:
    claimed_at_ms = idle.clock.now_ms() - 60_000
    idle.writer("claimed", mark, at_ms=claimed_at_ms)
    idle.writer(event, mark, round_number=1, at_ms=at_ms)
    found = report(idle, "--check", code=4 if attention else 0)
    assert (found["driver"]["state"], found["driver"]["claimed_at_ms"]) == (state, claimed_at_ms)
    assert found["needs_attention"] == attention


SWEEPS_S = 900
"""Three full sweeps of the configuration's default."""


def test_a_running_flow_whose_clusters_nobody_records_needs_attention(idle: Operated) -> None:
    now_ms = idle.clock.now_ms()
    idle.writer("claimed", own_mark(), at_ms=now_ms - 2 * SWEEPS_S * 1000)
    idle.writer("alive", own_mark(), round_number=1)
    idle.watermark("orders", 0, end=5, at_ms=now_ms - (SWEEPS_S + 60) * 1000)
    found = report(idle, "--check", code=4)
    assert found["needs_attention"] == ["nobody records east, west"]
    assert [recording["ends_at_ms"] is None for recording in found["recordings"]] == [False, True]
    told = text(idle)
    assert "recorded  source east: groups never, ends 9" in told
    assert "recorded  target west: groups never, ends never" in told
    idle.watermark("orders", 0, end=5, round_number=2, at_ms=now_ms - (SWEEPS_S - 60) * 1000)
    assert report(idle, "--check", code=4)["needs_attention"] == ["nobody records west"]


def test_a_flow_that_never_ran(idle: Operated) -> None:
    assert "driver    has never run" in text(idle, "--check")
    assert report(idle)["driver"] == {
        "state": "never_ran",
        **dict.fromkeys(
            ("host", "process", "epoch", "claimed_at_ms", "last_recorded_at_ms", "silent_seconds")
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
    assert told.startswith("east-to-west: 5 partitions stopped\n")
    for partition, (cause, command) in enumerate(CAUSES.items()):
        stop = (
            f"stopped   orders partition {partition}: {cause}: what was seen\n            next: what to do\n"
        )
        assert stop + ("" if command is None else f"            {command}\n") in told
    assert told.count("mirror-ledger") == 3
    assert report(flow)["stopped"] == [
        {
            "topic": "orders",
            "partition": partition,
            "cause": cause,
            "message": "what was seen",
            "next": "what to do",
            "command": command,
        }
        for partition, (cause, command) in enumerate(CAUSES.items())
    ]


def test_a_resumed_partition_is_not_stopped(flow: Operated) -> None:
    flow.stopped("orders", 1, "lost")
    flow.operation("partition_resumed", {"topic": "orders", "topic_id": "id-of-orders", "partition": 1})
    assert "stopped" not in text(flow, "--check")


def test_pauses_and_waiting_requests_are_told_and_pass_the_check(flow: Operated) -> None:
    answered = flow.operation("pause", {"topic": "orders"})
    flow.receipt(answered, "pause", "done", "orders is paused")
    assert flow.command("pause", FLOW, "--reason", "a move", "--ticket", "OPS-7").code == 0
    told = text(flow, "--check")
    assert "paused    the whole flow\n  paused    topic orders\n" in told
    [operation] = flow.operations()
    assert f", a move, OPS-7; operation {operation['operation_id']}\n" in told
    assert "waiting   pause of the flow, asked for by" in told
    assert "receipt   pause of topic orders done" in told
    assert f"orders is paused; operation {answered}\n" in told
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
    told = text(flow, "--check")
    assert "loss      lost, retention: 41 source offsets, last recorded 20" in told
    assert "loss      unpaired, accepted: 3 records at the target, last recorded 20" in told
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
    told = text(flow, "--check")
    assert told.startswith("east-to-west: nothing needs attention\n")
    assert (
        "gone      orders partition 0: its topic, id id-of-orders, ended at the source while it was stopped "
        "(denied); 1,204 records were not copied\n"
    ) in told
    assert "orders partition 1: its topic, id id-of-orders, ended at the source; an unknown number of" in told
    assert "lag       0 records" in told
    found = report(flow)
    assert (found["stopped"], found["lag_records"], found["unmeasured_partitions"]) == ([], 0, 0)
    assert [gone["stop_cause"] for gone in found["gone"]] == ["denied", None]
    assert "neither paused nor stopped" in flow.command("resume", FLOW, "--topic", "orders").err


def test_a_recreated_topic_that_stopped_is_not_gone(flow: Operated) -> None:
    flow.topic("orders", "observed")
    flow.topic("orders", "recreated", topic_id="new", first_round=2)
    flow.stopped("orders", 0, "source_recreated", topic_id="new")
    assert "stopped   orders partition 0: source_recreated" in text(flow, "--check", code=4)


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
    assert (
        "finding   recompressed of topic orders: compression.type is gzip\n            next: set it\n" in told
    )
    [finding] = report(flow)["findings"]
    assert finding["topic"] == "orders"
    assert finding["open_since_ms"] == finding["raised_at_ms"] > 0


def test_clusters_that_do_not_answer_come_first(flow: Operated) -> None:
    since_ms = flow.clock.now_ms() - 130_000
    for name, topic, message, began_ms in (
        (
            "target_unreachable",
            "orders",
            "west cannot be used for orders partition 0: refused",
            1_000,
        ),
        ("source_unreachable", None, "east does not answer: 127.0.0.1:9 cannot be connected", since_ms),
        ("recompressed", "orders", "compression.type is gzip", None),
    ):
        key = {"finding": name, "topic": topic, "partition": None, "message": message, "next": "look"}
        flow.operation("finding_raised", {**key, "since_ms": began_ms})
    told = text(flow, "--check", code=4)
    assert re.match(
        r"east-to-west: source east does not answer since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00, 0:02:1\d ago: "
        r"127.0.0.1:9 cannot be connected; target west cannot be used for orders partition 0 since "
        r"1970-01-01 00:00:01\+00:00, .* ago: refused; 1 findings open\n",
        told,
    )
    assert told.index("finding   source_unreachable") < told.index("finding   recompressed")
    first, second = report(flow, "--check", code=4)["outages"]
    assert (first["side"], first["topic"], first["since_ms"]) == ("source", None, since_ms)
    assert 130 <= first["seconds"] < 190
    assert (second["side"], second["topic"], second["finding"]) == ("target", "orders", "target_unreachable")


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
