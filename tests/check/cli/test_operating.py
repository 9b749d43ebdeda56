"""What operators ask for: held against a real ledger, recorded once, answered by receipts.

What is granted and what is refused is tried in `operations/test_requests.py`; here is one of each kind.
"""

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.commands import Done
from tests.support.operated import FLOW, Operated, mark_of_a_gone_process, own_mark


@pytest.fixture
def flow(idle: Operated) -> Operated:
    """A flow with topics `orders` (two partitions, at 100 and 50) and `events` whose driver has ended."""
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 100, ("orders", 1): 50, ("events", 0): 7})
    idle.writer("released", own_mark(), round_number=2)
    return idle


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
        (("pause", FLOW, "--topic", "orders"), "pause", {"topic": "orders"}),
        (
            ("skip-to", FLOW, "--topic", "orders", "--partition", "1", "--offset", "51"),
            "skip_to",
            {"topic": "orders", "partition": 1, "offset": 51},
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


def test_what_cannot_be_done_as_things_stand_is_refused(flow: Operated) -> None:
    arguments = ("skip-to", FLOW, "--topic", "orders", "--partition", "0", "--offset", "100")
    assert "stands at source offset 100 of orders partition 0" in refused(flow, *arguments, code=5)


def test_a_flow_that_never_ran_takes_no_requests(idle: Operated) -> None:
    done = idle.command("pause", FLOW)
    assert done.code == 5
    assert "has never run" in done.err


def test_nothing_to_do_is_said_and_not_recorded(flow: Operated) -> None:
    message = refused(flow, "resume", FLOW, code=0)
    assert "nothing to do: the flow is neither paused nor stopped" in message


def test_a_pause_is_asked_for_once(flow: Operated) -> None:
    paused = flow.operation("pause", {"topic": None})
    assert f"asked for already by operation {paused}" in refused(flow, "pause", FLOW, code=0)


@pytest.mark.parametrize(
    ("mark", "telling"),
    [
        (own_mark(), "takes it up after its round"),
        (mark_of_a_gone_process(), "is running (dead); the request is taken up at the next run"),
        ("elsewhere:1:1", "takes it up after its round"),
    ],
    ids=["running-here", "dead", "running-elsewhere"],
)
def test_it_is_said_when_the_request_is_taken_up(flow: Operated, mark: str, telling: str) -> None:
    flow.writer("claimed", mark, epoch=2)
    assert telling in flow.command("pause", FLOW).err


def test_a_silent_driver_elsewhere_is_told(idle: Operated) -> None:
    idle.writer("claimed", "elsewhere:1:1", at_ms=1_000)
    assert "the driver on elsewhere has recorded nothing for" in idle.command("pause", FLOW).err


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


def test_no_table_is_opened_that_a_request_does_not_need(
    flow: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that tell whether it makes sense, once; that of requests again to append, and whenever something was."""
    opened: list[str] = []
    opening = DeltaTable.__init__

    def counted(self: DeltaTable, table_uri: str, *options: Any, **named: Any) -> None:
        opened.append(Path(table_uri).name)
        opening(self, table_uri, *options, **named)

    def looked_for(table_uri: str, *_options: Any) -> bool:
        raise AssertionError(f"{table_uri} is opened anyway")

    before: list[list[str]] = []

    def sleep(_seconds: float) -> None:
        before.append(opened.copy())
        if len(before) == 3:
            request = flow.operations()[0]["operation_id"]
            flow.receipt(request, "pause", "done", "")
        opened.clear()

    monkeypatch.setattr(DeltaTable, "__init__", counted)
    monkeypatch.setattr(DeltaTable, "is_deltatable", looked_for)
    monkeypatch.setattr("ledger.answers.requests.time", SimpleNamespace(sleep=sleep))
    done = flow.command("pause", FLOW, "--wait", "20")
    assert done.code == 0, done.err
    judged = ["offset_syncs", "topics", "writers", "operations"]
    assert [*before, opened] == [[*judged, "operations", "operations"], [], [], ["operations"]]


def test_no_receipt_in_time(flow: Operated) -> None:
    done = flow.command("pause", FLOW, "--wait", "0.2")
    assert done.code == 5
    assert f"no receipt of operation {done.out.strip()} within 0.2 s" in done.err
    assert len(flow.operations()) == 1


def test_stop_waits_until_no_driver_is_at_work(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    done = idle.command("stop", FLOW, "--wait", "0.3")
    assert done.code == 5
    assert "has not ended within 0.3 s; it was asked to" in done.err
    assert [row["kind"] for row in idle.operations()] == ["stop"]
    ending = threading.Timer(0.3, lambda: idle.writer("released", own_mark(), round_number=2))
    ending.start()
    done = idle.command("stop", FLOW, "--wait", "20")
    ending.join()
    assert (done.code, done.out) == (0, "")
    assert f"{FLOW}: no driver is at work (released)" in done.err


def test_stop_does_not_wait_for_a_driver_that_is_dead(idle: Operated) -> None:
    idle.writer("claimed", mark_of_a_gone_process())
    done = idle.command("stop", FLOW, "--wait", "20")
    assert (done.code, f"{FLOW}: no driver is at work (holder dead)" in done.err) == (0, True)
