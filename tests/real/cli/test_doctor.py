"""`mirror-ledger doctor`: exit codes, output."""

import json
import re

import pytest

from ledger.doctor.checks import Check, Verdict
from tests.support.commands import command
from tests.support.flows import FlowUnderTest


def test_in_order_is_exit_0_and_every_row_is_data(
    flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    done = command(capsys, flow.config, "doctor", "flow", "--probe", "-o", "json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)
    assert {tuple(row) for row in rows} == {("subject", "check", "verdict", "measured", "advice", "not_made")}
    assert {row["check"] for row in rows} <= set(Check)
    counts = re.match(r"(\d+) checks: 0 failed, 0 unknown, (\d+) warning", done.err)
    assert counts is not None
    assert int(counts[1]) == len(rows)
    warned = [row for row in rows if row["verdict"] == Verdict.WARNING]
    assert int(counts[2]) == len(warned)
    assert all(row["advice"] for row in warned)


def test_strict_makes_warnings_count(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, flow.config, "doctor", "--strict")
    assert done.code == 4
    assert "warning  flow flow: source_excess\n" in done.out
    assert "ok       flow flow: source_permissions\n" in done.out
    assert "source_excess" not in done.err
