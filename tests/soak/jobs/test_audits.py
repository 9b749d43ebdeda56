"""Audits on Spark find what those of the command find, whether Spark holds the rows or reads the files."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.answers import spark as answers
from tests.support.audited import AuditedLedger


@pytest.mark.parametrize("few", [10_000, 0], ids=["small tables", "large tables"])
def test_an_audit_by_spark_is_that_of_the_command(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    few: int,
) -> None:
    monkeypatch.setattr(answers, "_FEW", few)
    audited = AuditedLedger.begun(tmp_path, capsys)
    for since in (False, True):
        audited.require_same(since=since, broken=None)
    audited.flow.lost("orders", 0, 117, 120)
    for since in (False, True):
        audited.require_same(since=since, broken="audit_l1_tiling: 1 row")
