"""The scripts for spark-submit do what the command line does, and end with the documented codes."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ledger.sandbox import SandboxCluster
from tests.support.flows import FlowUnderTest, flow_under_test, produce
from tests.support.recorded import broken_invariants
from tests.support.submitted import loaded, submit


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FlowUnderTest]:
    with flow_under_test(broker_pair, tmp_path, "jobs") as made:
        produce(made, 3_000)
        yield made


def test_spark_submit_mirrors_until_caught_up(flow: FlowUnderTest) -> None:
    done = submit("mirror_topics", "--config", flow.config.file, "--flow", "flow", "--until-caught-up")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert (summary["flow"], summary["records"], summary["end"]) == ("flow", 3_000, "caught_up")
    assert "flow: 3,000 records, " in done.stdout, (
        "progress; spark-submit writes what a script says to its stdout"
    )
    assert "flow: caught up: 3,000 records, " in done.stdout
    assert flow.target_records() == 3_000
    assert broken_invariants(flow.config) == {}


def test_spark_submit_passes_the_exit_code_on(flow: FlowUnderTest) -> None:
    done = submit("mirror_topics", "--config", flow.config.file, "--flow", "nope")
    assert done.returncode == 2
    assert "nope" in done.stdout + done.stderr
    assert flow.rows("offset_syncs") == 0


@pytest.mark.parametrize(
    ("job", "tables"),
    [
        ("record_checkpoints", {"checkpoints", "groups"}),
        ("record_high_watermarks", {"high_watermarks"}),
    ],
)
def test_a_recorder_job_appends_its_tables_only(
    flow: FlowUnderTest, capsys: pytest.CaptureFixture[str], job: str, tables: set[str]
) -> None:
    flow.commit("jobs-group", 2, offset=100)
    arguments = ["--config", flow.config.file, "--cluster", "east", "--once"]
    assert loaded(job).main(arguments) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert set(rows) - {"share_offsets"} == tables, "other tests may have share groups at the cluster"
    assert all(flow.rows(table) == rows[table] > 0 for table in tables)
    assert loaded(job).main(["--config", flow.config.file, "--cluster", "nope", "--once"]) == 2
