"""What `mirror-ledger views --engine spark` prints makes a Spark session answer as the program does."""

from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ledger import catalog
from ledger.adapters.delta.reading import open_ledger
from ledger.adapters.delta.tables import table_uri
from ledger.adapters.pasted_views import for_spark
from tests.support.ledger_rows import append
from tests.support.written_ledgers import largest_case, written

SYNCS = "offset_syncs"
OTHER_VIEWS = set(catalog.view_names()) - {"last_syncs"}
"""Spark takes long to look at all of them; `test_spark.py` does."""


def test_a_spark_session_reads_the_cut_that_was_printed(spark: SparkSession, tmp_path: Path) -> None:
    """As `queries/README.md` does it, with a query that Spark plans quickly, at a token from before the files were
    merged, removed and appended to."""
    case, query = largest_case("flow_positions"), catalog.query("flow_positions")
    path = str(tmp_path / "ledger")
    token = written(tmp_path / "ledger", case).cut.token
    rows = open_ledger(path).now().rows(SYNCS, [])
    later = [{**one, "writer_epoch": 1 << 20, "source_end": 1 << 40} for one in rows]
    append(path, SYNCS, later)
    syncs = DeltaTable(table_uri(path, SYNCS))
    syncs.optimize.compact()
    assert syncs.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    at = open_ledger(path).as_of(token, now_ms=0)
    own = spark.newSession()
    for statement in for_spark(at).split(";\n"):
        if statement.strip() and not any(f"view {name} as" in statement for name in OTHER_VIEWS):
            own.sql(statement)
    params = case.params(query)
    own.createDataFrame([tuple(params.values())], "flow string").createOrReplaceTempView("params")
    assert [row.asDict() for row in own.sql(query.sql).collect()] == case.expected(query).to_pylist()
