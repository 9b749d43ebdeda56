"""Every query and every view on Spark in ANSI mode: the SQL is portable, the adapters agree."""

import os
import random

import pytest
from pyspark.sql import SparkSession

from ledger.store import catalog
from ledger.store.catalog import Query
from tests.support.cases import cases_of
from tests.support.ledgers import COVERING, largest_case
from tests.support.query_mutants import VIEW_QUERIES
from tests.support.spark_answers import SparkLedger

SEED = int(os.environ.get("MIRROR_LEDGER_SEED", random.randrange(2**32)))


@pytest.fixture(scope="module")
def ledger(spark: SparkSession) -> SparkLedger:
    return SparkLedger(spark)


TRANSLATION = "offset_translation"
"""A generated history shows it here, its cases are for `make soak`."""
HERE = [name for name in COVERING if name != TRANSLATION]
"""`make soak` has the others; Spark plans the dozens of views of an answer between clusters for half a minute."""


@pytest.mark.parametrize("query", HERE)
def test_a_query_answers_as_its_largest_case_says(ledger: SparkLedger, query: str) -> None:
    ledger.assert_answers(largest_case(query))


def test_a_generated_history_is_translated_as_by_the_algebra(ledger: SparkLedger) -> None:
    ledger.assert_agrees_on_history(SEED)


def test_views_of_operations_agree(ledger: SparkLedger) -> None:
    case = next(case for case in cases_of("flow_status") if "operations" in case.blocks)
    ledger.assert_same_views(case, ("operation_contents", "partition_events"))


@pytest.mark.parametrize("query", VIEW_QUERIES, ids=lambda query: query.name)
def test_a_view_that_no_query_reads_agrees(ledger: SparkLedger, query: Query) -> None:
    ledger.assert_same_views(largest_case(query.name), [query.name])


def test_copies_from_before_a_resync_agree(ledger: SparkLedger) -> None:
    case = next(case for case in cases_of(TRANSLATION) if "copies from before a resync" in case.title)
    ledger.assert_same_views(case, ["earlier_copies"])


def test_spark_takes_every_query_and_view_as_duckdb_does(ledger: SparkLedger) -> None:
    views = ledger.assert_same_columns(catalog.queries().values())
    assert views == {*catalog.view_names(), *catalog.names_between_clusters()}
