"""The ledger is all that a driver has: lost local state costs nothing, an older copy of it is noticed."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.flows import PARTITIONS, FlowUnderTest, produce
from tests.support.runs import run


@pytest.mark.fault(36, 37)
def test_a_restored_older_ledger_is_brought_up_to_date_or_refuses(
    flow: FlowUnderTest, spark: SparkSession, tmp_path: Path
) -> None:
    path, empty, older = Path(flow.config.ledger.path), tmp_path / "empty", tmp_path / "older"
    shutil.copytree(path, empty)
    produce(flow, 300)
    flow.finish(spark)
    shutil.copytree(path, older)
    produce(flow, 300, start=300)
    flow.finish(spark)

    shutil.rmtree(path)
    older.rename(path)
    produce(flow, 300, start=600)
    flow.finish(spark)
    flow.assert_faithful(at_least=900)
    assert sum(row["recovered_rows"] for row in flow.query("flow_status")) > 0

    shutil.rmtree(path)
    empty.rename(path)
    stopped = run(flow.config, spark).stopped
    assert len(stopped) == PARTITIONS, "whose the target's records are cannot be proved any more"
    assert flow.target_records() == 900, "nothing was written"
    assert {row["stop_cause"] for row in flow.query("flow_status")} == {"foreign_write"}
