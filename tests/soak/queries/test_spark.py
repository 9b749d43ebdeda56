"""All cases of all queries, and several generated histories, on Spark."""

import os
import random

import pytest
from pyspark.sql import SparkSession

from ledger import catalog
from tests.support.cases import Case, cases_of
from tests.support.spark_answers import SparkLedger

CASES = [case for query in catalog.queries() for case in cases_of(query)]
SEED = int(os.environ.get("MIRROR_LEDGER_SEED", random.randrange(2**32)))
HISTORIES = 5


@pytest.fixture(scope="module")
def ledger(spark: SparkSession) -> SparkLedger:
    return SparkLedger(spark)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.query}: {case.title}")
def test_case(ledger: SparkLedger, case: Case) -> None:
    ledger.assert_answers(case)


@pytest.mark.parametrize("number", range(HISTORIES))
def test_generated_history(ledger: SparkLedger, number: int) -> None:
    ledger.assert_agrees_on_history(SEED + number)
