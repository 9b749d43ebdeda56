"""What `mirror-ledger views --engine spark` prints makes a Spark session answer as the program does."""

from pathlib import Path

from pyspark.sql import SparkSession

from ledger import catalog
from ledger.adapters.pasted_views import for_spark
from tests.support.written_ledgers import largest_case, written

OTHER_VIEWS = set(catalog.view_names()) - {"last_syncs"}
"""Spark takes long to look at all of them; `test_spark.py` does."""


def test_a_spark_session_reads_the_cut_that_was_printed(spark: SparkSession, tmp_path: Path) -> None:
    """As `queries/README.md` does it, with a query that Spark plans quickly."""
    case, query = largest_case("flow_positions"), catalog.query("flow_positions")
    at = written(tmp_path / "ledger", case)
    own = spark.newSession()
    for statement in for_spark(at).split(";\n"):
        if statement.strip() and not any(f"view {name} as" in statement for name in OTHER_VIEWS):
            own.sql(statement)
    params = case.params(query)
    own.createDataFrame([tuple(params.values())], "flow string").createOrReplaceTempView("params")
    assert [row.asDict() for row in own.sql(query.sql).collect()] == case.expected(query).to_pylist()
