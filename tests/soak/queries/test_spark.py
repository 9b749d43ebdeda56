"""All cases of all queries, and several generated histories, on Spark."""

import os
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger import catalog
from ledger.adapters.spark import answers
from tests.support.cases import Case, cases_of
from tests.support.spark_answers import SparkLedger
from tests.support.written_ledgers import written

ALL = [(query, case) for query in catalog.queries().values() for case in cases_of(query.name)]
CASES = [case for query, case in ALL if not query.is_between_clusters]
BETWEEN_CLUSTERS = [case for query, case in ALL if query.is_between_clusters]
"""Their views are deep: each has to be computed once."""
SEED = int(os.environ.get("MIRROR_LEDGER_SEED", random.randrange(2**32)))
HISTORIES = 5


@pytest.fixture(scope="module")
def ledger(spark: SparkSession) -> SparkLedger:
    return SparkLedger(spark)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.query}: {case.title}")
def test_case(ledger: SparkLedger, case: Case) -> None:
    ledger.assert_answers(case)


@pytest.mark.parametrize("case", BETWEEN_CLUSTERS, ids=lambda case: f"{case.query}: {case.title}")
def test_case_between_clusters(spark: SparkSession, tmp_path: Path, case: Case) -> None:
    query = catalog.query(case.query)
    found = answers.run_query(spark, query, case.params(query), written(tmp_path / "ledger", case))
    assert found.to_pylist() == case.expected(query).to_pylist()


@pytest.mark.parametrize("number", range(HISTORIES))
def test_generated_history(ledger: SparkLedger, number: int) -> None:
    ledger.assert_agrees_on_history(SEED + number)
