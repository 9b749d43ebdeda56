"""A rehearsal of the past by Spark."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.store.delta_tables import create_tables
from tests.support.drivers import loaded
from tests.support.operated import lag_by_thirty, operated


def test_a_rehearsal_by_spark_has_the_rows_of_the_command(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_tables(str(tmp_path / "empty"), now_ms=1)
    flow = operated(tmp_path, tmp_path / "empty", capsys)
    lag_by_thirty(flow)
    at_ms = flow.clock.now_ms()
    words = ["--from", "east", "--to", "west", "--every", "1s", "--accept", "no_commit"]
    words += ["--since", str(at_ms - 4_000), "--until", str(at_ms), "-o", "json"]
    file, job = tmp_path / "rows.json", loaded("rehearse")
    assert job.main(["--config", flow.config.file, "--file", str(file), *words]) == 0
    done = flow.command("rehearse", "failover", *words)
    assert done.code == 0, done.err
    rows = json.loads(done.out)
    assert json.loads(file.read_text(encoding="utf-8")) == rows
    assert (len(rows), rows[0]["status"], rows[-1]["records_lost"]) == (5, "before_ledger", 30)
    capsys.readouterr()
    assert job.main(["--config", flow.config.file, *words[:4]]) == 2
    assert "a rehearsal is --now, or of the past" in capsys.readouterr().err
