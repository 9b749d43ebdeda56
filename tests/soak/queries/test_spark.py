"""All cases of all queries, and several generated histories, on Spark."""

import os
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.answers.elsewhere import for_spark
from ledger.store import catalog
from ledger.store.sql import connect
from tests.support.cases import Case, cases_of
from tests.support.ledgers import largest_case, written
from tests.support.spark_answers import SparkLedger

CASES = [case for name in catalog.queries() for case in cases_of(name)]
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


def test_every_view_that_is_printed_can_be_made(spark: SparkSession, tmp_path: Path) -> None:
    at = written(tmp_path / "ledger", largest_case("finished_groups"))
    own = spark.newSession()
    for statement in for_spark(at).split(";\n"):
        if statement.strip():
            own.sql(statement)
    with connect(at, {}) as connection:
        expected = {name: connection.table(name).columns for name in catalog.view_names()}
    assert {name: own.table(name).columns for name in catalog.view_names()} == expected
