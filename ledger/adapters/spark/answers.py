"""Answers of the catalog in a Spark session: for ledgers that outgrow one machine, and where Spark is what there is.

Spark puts the text of a view wherever it is read: of views that read views that read views it plans the same text
hundreds of times. So what is read more than once is computed once, when its turn comes, and is a table from then on.
"""

from collections.abc import Mapping
from importlib.resources import files

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ledger import catalog
from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.adapters.duck.views import COMPUTED_FOR_A_FLOW
from ledger.adapters.pasted_views import spark_table
from ledger.catalog import Query, Value
from ledger.schema import TABLE_BY_NAME

_FOR_LARGE_TABLES = {
    # The session is tuned for appends of a few rows.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


def run_query(
    session: SparkSession, query: Query, params: Mapping[str, Value], at: DeltaSnapshot
) -> pa.Table:
    """The answer of a query over a ledger at a cut; raises `UsageError` for other parameters than it takes.

    The tables and views are those of a session of its own, so that a caller's of the same names stay.
    """
    query.check(params)
    own = _own_session(session)
    for table in sorted(catalog.tables_of(query.reads)):
        _execute(own, spark_table(at, TABLE_BY_NAME[table]))
    for function in _functions():
        _execute(own, function)
    times_read = catalog.times_read(query)
    for name, statement in catalog.views_of(query.reads).items():
        _execute(own, statement)
        if times_read[name] > 1:
            _of_flow(own.table(name), name, params).localCheckpoint().createOrReplaceTempView(name)
    if query.params:
        schema = ", ".join(f"{parameter.name} {parameter.type}" for parameter in query.params)
        row = tuple(params.get(name) for name in query.parameter_names)
        own.createDataFrame([row], schema).createOrReplaceTempView("params")
    return own.sql(query.sql).toArrow()


def _own_session(session: SparkSession) -> SparkSession:
    own = session.newSession()
    for key, value in _FOR_LARGE_TABLES.items():
        own.conf.set(key, value)
    own.conf.set("spark.sql.shuffle.partitions", str(session.sparkContext.defaultParallelism))
    return own


def _functions() -> list[str]:
    """What the views need of Spark, a statement each."""
    text = files(__package__).joinpath("functions.sql").read_text(encoding="utf-8")
    return [statement for statement in text.split(";\n") if statement.strip()]


def _execute(session: SparkSession, statement: str) -> None:
    session.sql(statement.rstrip().removesuffix(";"))


def _of_flow(frame: DataFrame, name: str, params: Mapping[str, Value]) -> DataFrame:
    """The rows of the flow that is asked about, of views that nothing reads of others."""
    flow = params.get("flow")
    return frame.where(frame["flow"] == flow) if flow is not None and name in COMPUTED_FOR_A_FLOW else frame
