"""`status`: where a flow stands, why, what to type; and `--check` for those who watch it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.operated import FLOW, Operated, make_operated, mark_of_a_gone_process, own_mark


@pytest.fixture
def flow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operated:
    """A flow with a driver at work: this process."""
    made = make_operated(tmp_path, capsys)
    made.writer("claimed", own_mark(), epoch=3)
    made.copied("orders", 0, source_end=100)
    made.copied("orders", 1, source_end=50)
    made.watermark("orders", 0, end=1_304)
    return made


def text(flow: Operated, *arguments: str, code: int = 0) -> str:
    done = flow.command("status", *arguments)
    assert done.code == code, done.err
    assert "cut v1." in done.err
    return done.out


def report(flow: Operated, *arguments: str) -> dict[str, Any]:
    [found] = json.loads(text(flow, FLOW, "-o", "json", *arguments))
    assert isinstance(found, dict)
    return found


def test_a_flow_at_work_needs_nothing(flow: Operated) -> None:
    told = text(flow, "--check")
    assert told.startswith("east-to-west: nothing needs attention\n")
    assert "driver    running: epoch 3, process" in told
    assert "lag       1,204 records in 2 partitions; the source ends of 1 were never read" in told
    for absent in ("stopped", "gone", "loss", "paused", "waiting", "finding", "receipt"):
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
)
def test_states_of_a_driver(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    event: str,
    mark: str,
    at_ms: int | None,
    state: str,
    attention: list[str],
) -> None:
    flow = make_operated(tmp_path, capsys)
    flow.writer("claimed", mark, at_ms=500)
    flow.writer(event, mark, round_number=1, at_ms=at_ms)
    found = report(flow)
    assert (found["driver"]["state"], found["driver"]["claimed_at_ms"]) == (state, 500)
    assert found["needs_attention"] == attention
    assert flow.command("status", "--check").code == (4 if attention else 0)


def test_a_flow_that_never_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = make_operated(tmp_path, capsys)
    assert "driver    has never run" in text(flow, "--check")
    assert report(flow)["driver"] == {
        "state": "never_ran",
        **dict.fromkeys(
            ("host", "process", "epoch", "claimed_at_ms", "last_recorded_at_ms", "silent_seconds")
        ),
    }


@pytest.mark.parametrize(
    ("cause", "command"),
    [
        ("lost", "mirror-ledger resume east-to-west --topic orders --partition 1"),
        ("foreign_write", "mirror-ledger accept-foreign east-to-west --topic orders --partition 1"),
        ("target_out_of_range", "mirror-ledger resync east-to-west --topic orders --partition 1"),
        ("shut_out", None),
        ("a cause of a later version", None),
    ],
)
def test_a_stopped_partition_has_a_command_to_type(flow: Operated, cause: str, command: str | None) -> None:
    flow.stopped("orders", 1, cause)
    told = text(flow)
    assert told.startswith("east-to-west: 1 partitions stopped\n")
    assert f"stopped   orders partition 1: {cause}: what was seen\n            next: what to do\n" in told
    assert (f"            {command}\n" in told) is (command is not None)
    assert report(flow)["stopped"] == [
        {
            "topic": "orders",
            "partition": 1,
            "cause": cause,
            "message": "what was seen",
            "next": "what to do",
            "command": command,
        }
    ]
    assert flow.command("status", FLOW, "--check").code == 4


def test_a_resumed_partition_is_not_stopped(flow: Operated) -> None:
    flow.stopped("orders", 1, "lost")
    time.sleep(0.002)  # of events recorded together the stop counts
    flow.operation("partition_resumed", topic="orders", topic_id="id-of-orders", partition=1)
    assert "stopped" not in text(flow, "--check")


def test_pauses_and_waiting_requests_are_told_and_pass_the_check(flow: Operated) -> None:
    answered = flow.operation("pause", topic="orders")
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
    requests = [flow.operation("resume", topic="orders", partition=1) for _ in range(7)]
    for number, request in enumerate(requests):
        flow.receipt(request, "resume", "refused", f"answer {number}")
        time.sleep(0.002)
    flow.receipt(requests[0], "resume", "done", "the first answer counts")
    receipts = report(flow)["receipts"]
    assert [receipt["message"] for receipt in receipts] == [f"answer {number}" for number in (6, 5, 4, 3, 2)]
    assert {receipt["operator"] for receipt in receipts} == {"somebody"}
    assert [(receipts[0][key]) for key in ("topic", "partition", "offset")] == ["orders", 1, None]


def test_losses_are_told_by_cause_and_pass_the_check(flow: Operated) -> None:
    flow.lost("orders", 0, 100, 140)
    flow.lost("orders", 0, 140, 150, round=3, cause="skipped")
    flow.lost("orders", 1, 50, 52)
    flow.lost("orders", 1, 51, 52, round=3, kind="superseded", cause="resync")
    flow.lost("orders", 1, 51, 51, round=4, kind="unpaired", cause="accepted", target_end=54, records=3)
    flow.append("offset_syncs", flow="west-to-east", kind="lost", cause="deleted_records", source_end=9)
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
    flow.lost("orders", 1, 50, 52)
    flow.lost("orders", 1, 50, 52, round=3, kind="superseded", cause="resync")
    assert [loss["kind"] for loss in report(flow)["losses"]] == ["superseded"]


def test_what_stopped_and_is_gone_at_the_source_needs_nothing(flow: Operated) -> None:
    flow.stopped("orders", 0, "denied")
    flow.topic("orders", "observed")
    assert flow.command("status", "--check").code == 4
    flow.topic("orders", "deleted", round_number=2)
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
    flow.topic("orders", "recreated", topic_id="new", round_number=2)
    flow.stopped("orders", 0, "source_recreated", topic_id="new")
    told = text(flow)
    assert "stopped   orders partition 0: source_recreated" in told
    assert flow.command("status", "--check").code == 4


def test_all_copied_before_it_ended_is_not_worth_a_line(flow: Operated) -> None:
    flow.copied("events", 0, source_end=7)
    flow.watermark("events", 0, end=7)
    flow.topic("events", "observed")
    flow.topic("events", "deleted", round_number=2)
    assert "gone" not in text(flow)


def test_open_findings_are_told_until_they_are_cleared(flow: Operated) -> None:
    raised = {"message": "compression.type is gzip", "next": "set it"}
    flow.operation("finding_raised", finding="recompressed", topic="orders", partition=None, **raised)
    flow.operation("finding_raised", finding="recompressed", topic="events", partition=None, **raised)
    time.sleep(0.002)
    flow.operation("finding_cleared", finding="recompressed", topic="events", partition=None)
    told = text(flow)
    assert (
        "finding   recompressed of topic orders: compression.type is gzip\n            next: set it\n" in told
    )
    assert [finding["topic"] for finding in report(flow)["findings"]] == ["orders"]
    [finding] = report(flow)["findings"]
    assert finding["open_since_ms"] == finding["raised_at_ms"] > 0
    assert flow.command("status", "--check").code == 4


def test_what_other_flows_have_does_not_show(flow: Operated) -> None:
    flow.operation("pause", flow="west-to-east", topic=None)
    flow.operation(
        "finding_raised", flow="west-to-east", finding="f", topic=None, partition=None, message="m"
    )
    assert "nothing needs attention" in text(flow, "--check")
    assert "paused" not in text(flow)


def test_a_past_cut_does_not_tell_whether_the_driver_lived(flow: Operated) -> None:
    cut = flow.command("status").err.split()[-1]
    flow.stopped("orders", 0, "lost")
    told = text(flow, "--as-of", cut, "--check")
    assert "driver    claimed: epoch 3" in told
    assert "stopped" not in told


def test_partitions_as_a_table_and_as_csv(flow: Operated) -> None:
    assert "east.orders" in text(flow, "--partitions")
    assert "east.orders" not in text(flow)
    lines = text(flow, "-o", "csv").splitlines()
    assert lines[0].startswith("flow,source_topic,")
    assert len(lines) == 3
