"""What `mirror-ledger views --engine spark` prints makes a Spark session answer as the program does."""

from pathlib import Path

from pyspark.sql import SparkSession

from ledger import catalog
from ledger.adapters.pasted_views import for_spark
from tests.support.written_ledgers import largest_case, written


def test_a_spark_session_reads_the_cut_that_was_printed(spark: SparkSession, tmp_path: Path) -> None:
    """As `queries/README.md` does it, with a query that Spark plans quickly."""
    case, query = largest_case("flow_positions"), catalog.query("flow_positions")
    at = written(tmp_path / "ledger", case)
    text = for_spark(at)
    own = spark.newSession()
    for statement in text.split(";\n"):
        if statement.strip():
            own.sql(statement)
    params = case.params(query)
    own.createDataFrame([tuple(params.values())], "flow string").createOrReplaceTempView("params")
    assert [row.asDict() for row in own.sql(query.sql).collect()] == case.expected(query).to_pylist()
