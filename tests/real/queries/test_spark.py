"""Every query and every view on Spark in ANSI mode: the SQL is portable, the adapters agree."""

import pytest
from pyspark.sql import SparkSession

from ledger.store import catalog
from ledger.store.catalog import Query
from tests.support.cases import cases_of
from tests.support.ledgers import COVERING, largest_case
from tests.support.query_mutants import VIEW_QUERIES
from tests.support.spark_answers import SparkLedger


@pytest.fixture(scope="module")
def ledger(spark: SparkSession) -> SparkLedger:
    return SparkLedger(spark)


HERE = [name for name in COVERING if name not in ("failover_loss", "finished_groups", "lag_over_time")]
"""`make soak` has the others, and all cases: those Spark plans for up to a minute, as they read dozens of views."""


@pytest.mark.parametrize("query", HERE)
def test_a_query_answers_as_its_largest_case_says(ledger: SparkLedger, query: str) -> None:
    ledger.assert_answers(largest_case(query))


def test_views_of_operations_agree(ledger: SparkLedger) -> None:
    case = next(case for case in cases_of("flow_status") if "operations" in case.blocks)
    ledger.assert_same_views(case, ("operation_contents", "partition_events"))


@pytest.mark.parametrize("query", VIEW_QUERIES, ids=lambda query: query.name)
def test_a_view_that_no_query_reads_agrees(ledger: SparkLedger, query: Query) -> None:
    ledger.assert_same_views(largest_case(query.name), [query.name])


def test_spark_takes_every_query_and_view_as_duckdb_does(ledger: SparkLedger) -> None:
    views = ledger.assert_same_columns(catalog.queries().values())
    assert views == {*catalog.view_names(), *catalog.names_between_clusters()}
