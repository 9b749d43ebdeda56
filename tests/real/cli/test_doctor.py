"""`mirror-ledger doctor`: exit codes, output, and what it says when a cluster is not there."""

import json
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ledger.operations.doctor.checks import Check, Verdict
from ledger.sandbox import SandboxCluster
from tests.support.commands import command, mirror_ledger
from tests.support.flows import FlowUnderTest, flow_under_test


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FlowUnderTest]:
    with flow_under_test(broker_pair, tmp_path, "doctor-cli") as made:
        yield made


def test_in_order_is_exit_0_and_every_row_is_data(
    flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    done = command(capsys, flow.config, "doctor", "flow", "--probe", "-o", "json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)
    assert {tuple(row) for row in rows} == {("subject", "check", "verdict", "measured", "advice")}
    assert {row["check"] for row in rows} <= set(Check)
    counts = re.match(r"(\d+) checks: 0 failed, 0 unknown, (\d+) warning", done.err)
    assert counts is not None
    assert int(counts[1]) == len(rows)
    warned = [row for row in rows if row["verdict"] == Verdict.WARNING]
    assert int(counts[2]) == len(warned)
    assert all(row["advice"] for row in warned)


def test_strict_makes_warnings_count(
    flow: FlowUnderTest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # a terminal that shows whole words
    done = command(capsys, flow.config, "doctor", "--strict")
    assert done.code == 4
    assert "flow flow: source_excess: warning" in done.err
    assert "source_permissions: ok" not in done.err
    assert "source_permissions" in done.out


def test_an_unknown_flow_is_refused(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, flow.config, "doctor", "nope")
    assert (done.code, done.out) == (2, "")
    assert "no flow 'nope'" in done.err


def test_a_share_beyond_one_is_refused(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, flow.config, "doctor", "--retention-left", "25")
    assert (done.code, done.out) == (2, "")


def test_a_cluster_that_is_not_there_is_exit_4_with_its_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    file = tmp_path / "mirror.toml"
    file.write_text(
        f'[ledger]\npath = "{tmp_path / "ledger"}"\n'
        f'[clusters.east]\nbootstrap_servers = "{address}"\n[clusters.west]\nbootstrap_servers = "{address}"\n'
        '[flows.f]\nsource = "east"\ntarget = "west"\ntopics = [".*"]\n',
        encoding="utf-8",
    )
    done = mirror_ledger(capsys, "--config", str(file), "doctor", "-o", "csv")
    assert done.code == 4
    assert "Traceback" not in done.err
    assert f"cluster east: bootstrap_address: failed: {address} cannot be connected" in done.err
    assert "cluster east: broker_version: unknown: cluster east does not answer" in done.err
    assert "ledger: ledger_tables: failed: no table" in done.err
    assert done.out.startswith("subject,check,verdict,measured,advice\n")
    assert not (tmp_path / "ledger").exists()
