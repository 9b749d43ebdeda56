"""What operators ask for: held against a real ledger, recorded once, answered by receipts."""

import json
import threading
import time
from pathlib import Path

import pytest

from tests.support.operated import FLOW, Done, Operated, make_operated, mark_of_a_gone_process, own_mark


@pytest.fixture
def flow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operated:
    """A flow with topics `orders` (two partitions, at 100 and 50) and `events` whose driver has ended."""
    made = make_operated(tmp_path, capsys)
    made.writer("claimed", own_mark())
    made.copied("orders", 0, source_end=100)
    made.copied("orders", 1, source_end=50)
    made.copied("events", 0, source_end=7)
    made.writer("released", own_mark(), round_number=2)
    return made


def recorded(flow: Operated, done: Done) -> dict[str, object]:
    """The content of the one request that the command recorded; its row says what stdout says."""
    assert done.code == 0, done.err
    [row] = flow.operations()
    assert done.out == f"{row['operation_id']}\n"
    assert (row["flow"], row["writer"], row["writer_epoch"]) == (FLOW, "operator", 0)
    return {"kind": row["kind"], "content": json.loads(row["content"])}


def refused(flow: Operated, *arguments: str, code: int) -> str:
    done = flow.command(*arguments)
    assert (done.code, done.out) == (code, ""), done.err
    assert flow.operations() == []
    assert "nothing was recorded" in done.err
    return done.err


@pytest.mark.parametrize(
    ("arguments", "kind", "content"),
    [
        (("pause", FLOW), "pause", {"topic": None}),
        (("pause", FLOW, "--topic", "orders"), "pause", {"topic": "orders"}),
        (
            ("skip-to", FLOW, "--topic", "orders", "--partition", "1", "--offset", "51"),
            "skip_to",
            {"topic": "orders", "partition": 1, "offset": 51},
        ),
        (
            ("resync", FLOW, "--topic", "orders"),
            "resync",
            {"topic": "orders", "partition": None, "offset": None},
        ),
        (
            ("resync", FLOW, "--topic", "orders", "--partition", "0", "--offset", "100"),
            "resync",
            {"topic": "orders", "partition": 0, "offset": 100},
        ),
    ],
)
def test_a_request_is_recorded_as_the_protocol_has_it(
    flow: Operated, arguments: tuple[str, ...], kind: str, content: dict[str, object]
) -> None:
    done = flow.command(*arguments)
    assert recorded(flow, done) == {"kind": kind, "content": content}
    assert "no driver of east-to-west is running (released)" in done.err
    assert "taken up at the next run" in done.err


@pytest.mark.parametrize(
    ("arguments", "kind", "content"),
    [
        (("resume", FLOW), "resume", {"topic": None, "partition": None}),
        (
            ("resume", FLOW, "--topic", "orders", "--partition", "1"),
            "resume",
            {"topic": "orders", "partition": 1},
        ),
        (
            ("accept-foreign", FLOW, "--topic", "orders"),
            "accept_foreign",
            {"topic": "orders", "partition": None},
        ),
    ],
)
def test_what_stopped_can_be_let_go_on(
    flow: Operated, arguments: tuple[str, ...], kind: str, content: dict[str, object]
) -> None:
    flow.stopped("orders", 1, "foreign_write")
    done = flow.command(*arguments)
    assert recorded(flow, done) == {"kind": kind, "content": content}
    assert "orders partition 1 (foreign_write)" in done.err


def test_reason_and_ticket_are_recorded(flow: Operated) -> None:
    assert flow.command("pause", FLOW, "--reason", "a move", "--ticket", "OPS-7").code == 0
    assert flow.command("stop", FLOW, "--reason", "a move", "--ticket", "OPS-8").code == 0
    rows = [(row["kind"], row["reason"], row["ticket"]) for row in flow.operations()]
    assert sorted(rows) == [("pause", "a move", "OPS-7"), ("stop", "a move", "OPS-8")]


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (("pause", FLOW, "--topic", "nope"), "it has events, orders"),
        (("resume", FLOW, "--topic", "orders", "--partition", "2"), "it has 0, 1"),
        (
            ("skip-to", FLOW, "--topic", "events", "--partition", "1", "--offset", "9"),
            "no partition 1 of topic events",
        ),
        (("resume", FLOW, "--partition", "2"), "--partition needs --topic"),
        (("resync", FLOW, "--topic", "orders", "--offset", "2"), "--offset needs --partition"),
    ],
)
def test_what_the_ledger_does_not_know_is_refused(
    flow: Operated, arguments: tuple[str, ...], telling: str
) -> None:
    assert telling in refused(flow, *arguments, code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("skip-to", FLOW, "--topic", "orders", "--partition", "0"),
        ("skip-to", FLOW, "--topic", "orders", "--partition", "0", "--offset", "-1"),
        ("skip-to", FLOW, "--topic", "orders", "--partition", "0", "--offset", str(2**63)),
        ("accept-foreign", FLOW),
        ("resync", FLOW, "--topic", "orders", "--partition", "zero"),
        ("pause",),
        ("pause", FLOW, "--wait", "-1"),
    ],
)
def test_bad_usage_is_refused(flow: Operated, arguments: tuple[str, ...]) -> None:
    assert flow.command(*arguments).code == 2
    assert flow.operations() == []


@pytest.mark.parametrize("offset", ["0", "99", "100"])
def test_nothing_can_be_skipped_below_the_position(flow: Operated, offset: str) -> None:
    arguments = ("skip-to", FLOW, "--topic", "orders", "--partition", "0", "--offset", offset)
    assert "stands at source offset 100 of orders partition 0" in refused(flow, *arguments, code=5)


def test_nothing_can_be_copied_again_above_the_position(flow: Operated) -> None:
    arguments = ("resync", FLOW, "--topic", "orders", "--partition", "0", "--offset", "101")
    message = refused(flow, *arguments, code=5)
    assert "`mirror-ledger skip-to east-to-west --topic orders --partition 0 --offset 101`" in message


def test_a_flow_that_never_ran_takes_no_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = make_operated(tmp_path, capsys).command("pause", FLOW)
    assert done.code == 5
    assert "has never run" in done.err


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (("resume", FLOW), "the flow is neither paused nor stopped"),
        (("resume", FLOW, "--topic", "orders"), "topic orders is neither paused nor stopped"),
        (("accept-foreign", FLOW, "--topic", "orders"), "nothing of topic orders is stopped"),
    ],
)
def test_nothing_to_do_is_said_and_not_recorded(
    flow: Operated, arguments: tuple[str, ...], telling: str
) -> None:
    message = refused(flow, *arguments, code=0)
    assert f"nothing to do: {telling}" in message


def test_a_pause_is_asked_for_once_and_ended_as_a_whole(flow: Operated) -> None:
    paused = flow.operation("pause", topic=None)
    assert f"asked for already by operation {paused}" in refused(flow, "pause", FLOW, code=0)
    assert "the whole of flow east-to-west is paused" in refused(
        flow, "pause", FLOW, "--topic", "orders", code=0
    )
    message = refused(flow, "resume", FLOW, "--topic", "orders", code=5)
    assert "topic orders cannot be resumed by itself" in message
    assert "End the pause with `mirror-ledger resume east-to-west`" in message
    assert "the pause of the flow ends" in flow.command("resume", FLOW).err


def test_a_partition_of_a_paused_topic_is_not_resumed_by_itself(flow: Operated) -> None:
    flow.operation("pause", topic="orders")
    message = refused(flow, "resume", FLOW, "--topic", "orders", "--partition", "1", code=5)
    assert "`mirror-ledger resume east-to-west --topic orders`" in message
    assert "nothing to do" in refused(flow, "resume", FLOW, "--topic", "events", code=0)
    done = flow.command("resume", FLOW, "--topic", "orders")
    assert recorded(flow, done)["content"] == {"topic": "orders", "partition": None}
    assert "the pause of topic orders ends" in done.err


@pytest.mark.parametrize(
    ("mark", "telling"),
    [
        (own_mark(), "takes it up after its round"),
        (mark_of_a_gone_process(), "is running (dead); the request is taken up at the next run"),
        ("elsewhere:1:1", "takes it up after its round"),
    ],
)
def test_it_is_said_when_the_request_is_taken_up(flow: Operated, mark: str, telling: str) -> None:
    flow.writer("claimed", mark, epoch=2)
    assert telling in flow.command("pause", FLOW).err


def test_a_silent_driver_elsewhere_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = make_operated(tmp_path, capsys)
    flow.writer("claimed", "elsewhere:1:1", at_ms=1_000)
    assert "the driver on elsewhere has recorded nothing for" in flow.command("pause", FLOW).err


def answer(flow: Operated, result: str, message: str) -> threading.Thread:
    """A driver that answers the first request that it finds."""

    def work() -> None:
        deadline = time.monotonic() + 20
        while not (asked := flow.operations()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        flow.receipt(asked[0]["operation_id"], asked[0]["kind"], result, message)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize(("result", "code"), [("done", 0), ("refused", 4)])
def test_the_receipt_is_waited_for(flow: Operated, result: str, code: int) -> None:
    driver = answer(flow, result, "as the driver saw it")
    try:
        done = flow.command("pause", FLOW, "--wait", "20")
    finally:
        driver.join()
    assert done.code == code
    assert "as the driver saw it" in done.err
    assert done.out.strip() == flow.operations()[0]["operation_id"]


def test_no_receipt_in_time(flow: Operated) -> None:
    done = flow.command("pause", FLOW, "--wait", "0.2")
    assert done.code == 5
    assert f"no receipt of operation {done.out.strip()} within 0.2 s" in done.err
    assert len(flow.operations()) == 1
