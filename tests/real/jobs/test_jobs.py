"""The scripts for spark-submit do what the command line does, and end with the documented codes."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from ledger.adapters.jvm import delta_jars
from ledger.sandbox import SandboxCluster
from tests.support.checkout import CHECKOUT
from tests.support.flows import DEADLINE_S, FaultFlow, make_flow, produce

JOBS = CHECKOUT / "jobs"


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FaultFlow]:
    with make_flow(broker_pair, tmp_path, "jobs") as made:
        produce(made, 3_000)
        yield made


def submit(job: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """spark-submit of a job on one machine, to its end."""
    command = [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", "local[2]", "--jars", ",".join(str(jar) for jar in delta_jars())),
        str(JOBS / f"{job}.py"),
        *arguments,
    ]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(CHECKOUT),
    }
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=DEADLINE_S, check=False
    )


def loaded(job: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(job, JOBS / f"{job}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_spark_submit_mirrors_until_caught_up(flow: FaultFlow) -> None:
    done = submit("mirror_topics", "--config", str(flow.config_file), "--flow", "flow", "--until-caught-up")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert (summary["flow"], summary["records"], summary["stopped"]) == ("flow", 3_000, [])
    assert flow.target_records() == 3_000
    assert flow.broken_invariants() == {}


def test_spark_submit_passes_the_exit_code_on(flow: FaultFlow) -> None:
    done = submit("mirror_topics", "--config", str(flow.config_file), "--flow", "nope")
    assert done.returncode == 2
    assert "nope" in done.stdout + done.stderr
    assert flow.offset_syncs() == 0


@pytest.mark.parametrize(
    ("job", "table"), [("record_checkpoints", "checkpoints"), ("record_high_watermarks", "high_watermarks")]
)
def test_a_recorder_job_appends_its_table_only(
    flow: FaultFlow, spark: SparkSession, capsys: pytest.CaptureFixture[str], job: str, table: str
) -> None:
    flow.commit("jobs-group", 2, offset=100)
    arguments = ["--config", str(flow.config_file), "--cluster", "east", "--once"]
    assert loaded(job).main(arguments) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert set(rows) == {table}
    assert flow.rows(table) == rows[table] > 0
    assert loaded(job).main(["--config", str(flow.config_file), "--cluster", "nope", "--once"]) == 2
