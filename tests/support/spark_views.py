"""The ledger's tables and views as temporary views of a SparkSession, and queries over them."""

from collections.abc import Mapping
from importlib.resources import files

from pyspark.sql import DataFrame, SparkSession

from ledger import catalog
from ledger.catalog import Query, Value


def register_derived_views(spark: SparkSession) -> None:
    """The views of the ledger, over tables that can be read by name already."""
    functions = files("ledger.adapters.spark").joinpath("functions.sql").read_text(encoding="utf-8")
    for statement in (functions + catalog.VIEWS).split(";\n"):
        if statement.strip():
            spark.sql(statement)


def run_query(spark: SparkSession, query: Query, params: Mapping[str, Value]) -> DataFrame:
    """The answer of a query over the registered views."""
    query.check(params)
    if query.params:
        schema = ", ".join(f"{parameter.name} {parameter.type}" for parameter in query.params)
        row = tuple(params.get(name) for name in query.parameter_names)
        spark.createDataFrame([row], schema).createOrReplaceTempView("params")
    return spark.sql(query.sql)
