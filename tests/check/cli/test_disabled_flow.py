"""Commands about a flow that the configuration disables: nothing is copied, everything can be looked at."""

import json
from pathlib import Path

import pytest

from tests.support.commands import UnreachableFlow
from tests.support.operated import FLOW, Operated, mark_of_a_gone_process, own_mark


@pytest.mark.parametrize(
    "arguments", [("run",), ("run", "--until-caught-up"), ("resync-keys", "--topic", "t")]
)
def test_what_would_write_to_its_target_is_refused(
    with_ledger: UnreachableFlow, arguments: tuple[str, ...]
) -> None:
    message = with_ledger.with_line("enabled = false").refused(*arguments, FLOW, code=2)
    assert (
        f"flow {FLOW} is disabled: {with_ledger.config.file} has enabled = false in [flows.{FLOW}]" in message
    )


@pytest.fixture
def disabled(idle: Operated) -> Operated:
    """A flow that has copied something and left something behind."""
    file = Path(idle.config.file)
    file.write_text(file.read_text(encoding="utf-8") + "enabled = false\n", encoding="utf-8")
    idle.copied({("orders", 0): 100}, at_ms=1_000)
    idle.stopped("orders", 1, "lost")
    return idle


@pytest.mark.parametrize(
    ("mark", "at_ms", "event"),
    [
        (mark_of_a_gone_process(), None, "released"),
        (mark_of_a_gone_process(), None, "claimed"),
        ("elsewhere:1:1", 1_000, "claimed"),
    ],
    ids=["released", "dead", "silent"],
)
def test_nothing_of_it_needs_attention_while_no_driver_runs(
    disabled: Operated, mark: str, at_ms: int | None, event: str
) -> None:
    disabled.writer(event, mark, at_ms=at_ms)
    done = disabled.command("status", "--check")
    assert done.code == 0
    assert done.out.startswith(f"{FLOW}: disabled by the configuration (enabled = false)")
    assert "orders partition 1: lost" in done.out
    [found] = json.loads(disabled.command("status", "-o", "json").out)
    assert (found["enabled"], found["needs_attention"]) == (False, [])


def test_a_driver_of_it_that_runs_needs_attention(disabled: Operated) -> None:
    disabled.writer("claimed", own_mark())
    done = disabled.command("status", "--check")
    told = f"it is disabled, but its driver runs: mirror-ledger stop {FLOW}"
    assert done.code == 4
    assert " ".join(done.out.split()).startswith(f"{FLOW}: {told}")
    assert done.err == "error: 1 reason to act, named above\n"
    assert disabled.command("stop", FLOW).code == 0


def test_requests_are_left_for_the_day_that_it_runs_again(disabled: Operated) -> None:
    disabled.writer("claimed", mark_of_a_gone_process())
    assert disabled.command("pause", FLOW, "--topic", "orders").code == 0
    assert [row["kind"] for row in disabled.operations()] == ["pause"]


def test_doctor_says_that_it_leaves_it_out(disabled: Operated) -> None:
    rows = json.loads(disabled.command("doctor", "-o", "json").out)
    [told] = [row for row in rows if row["check"] == "enabled"]
    assert (told["subject"], told["verdict"], told["measured"]) == (
        f"flow {FLOW}",
        "skipped",
        "enabled = false",
    )
    assert f"mirror-ledger doctor {FLOW}" in told["advice"]
    assert {row["subject"] for row in rows} == {"machine", "ledger", f"flow {FLOW}"}


def test_doctor_examines_it_when_it_is_named(disabled: Operated) -> None:
    rows = json.loads(disabled.command("doctor", FLOW, "-o", "json").out)
    [told] = [row for row in rows if row["check"] == "enabled"]
    assert (told["verdict"], told["measured"]) == ("warning", "enabled = false: run refuses it")
    assert {"cluster east", "cluster west"} < {row["subject"] for row in rows}
