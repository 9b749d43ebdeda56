"""The same cases, translations and views on Spark in ANSI mode: the SQL is portable, the adapters agree."""

import os
import random
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ledger import catalog
from ledger.adapters.duck.engine import Snapshot, connect
from ledger.adapters.spark.views import register_derived_views, run_query
from ledger.domain.offsets import OffsetMap
from ledger.schema import TABLES
from tests.support.cases import Case, cases_of, has_cases
from tests.support.generated_ledgers import FLOW, group_of, ledger_of, offsets
from tests.support.histories import random_history

CASES = [case for name in catalog.queries() if has_cases(name) for case in cases_of(name)]
SEED = int(os.environ.get("MIRROR_LEDGER_SEED", random.randrange(2**32)))
HISTORIES = 5
VIEWS = ("last_syncs", "effective_syncs", "current_maps", "segments", "gaps", "last_high_watermarks")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session without Delta; one that is there already is used, and left alone."""
    before = SparkSession.getActiveSession()
    yield before or _plain_session()
    if before is None and (own := SparkSession.getActiveSession()):
        own.stop()


def _plain_session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").appName("queries")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def read(spark: SparkSession, snapshot: Snapshot) -> None:
    for table in TABLES:
        relation = snapshot.relation(table.name)
        assert isinstance(relation, pa.Table)
        spark.createDataFrame(relation).createOrReplaceTempView(table.name)
    register_derived_views(spark)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.query}: {case.title}")
def test_case(spark: SparkSession, case: Case) -> None:
    query = catalog.query(case.query)
    read(spark, case)
    answer = run_query(spark, query, case.params(query))
    assert [row.asDict() for row in answer.collect()] == case.expected(query).to_pylist()
    assert [(field.name, field.dataType.simpleString()) for field in answer.schema] == [
        (column.name, column.type) for column in query.columns
    ]


@pytest.mark.parametrize("number", range(HISTORIES))
def test_generated_history(spark: SparkSession, number: int) -> None:
    print(f"MIRROR_LEDGER_SEED={SEED}")
    history = random_history(random.Random(SEED + number))
    snapshot = ledger_of(history, history.target_start + 2)
    read(spark, snapshot)
    offset_map = OffsetMap.from_syncs(FLOW, history.syncs)
    translated = {o: offset_map.translate(o, history.target_start + 2) for o in offsets(history)}
    rows = run_query(spark, catalog.query("offset_translation"), {"flow": FLOW}).collect()
    assert {row.group_id: (row.target_offset, row.status) for row in rows} == {
        group_of(offset): (found.target_offset, found.status.value) for offset, found in translated.items()
    }
    for view in VIEWS:
        assert _spark_rows(spark, view) == _duck_rows(snapshot, view)


def test_views_of_operations_agree(spark: SparkSession) -> None:
    case = next(case for case in cases_of("flow_status") if "operations" in case.blocks)
    read(spark, case)
    for view in ("operation_contents", "partition_events"):
        assert _spark_rows(spark, view) == _duck_rows(case, view)


def _spark_rows(spark: SparkSession, view: str) -> list[str]:
    return sorted(str(sorted(row.asDict(recursive=True).items())) for row in spark.table(view).collect())


def _duck_rows(snapshot: Snapshot, view: str) -> list[str]:
    with connect(snapshot, {}) as connection:
        rows = connection.table(view).to_arrow_table().to_pylist()
    return sorted(str(sorted(row.items())) for row in rows)
