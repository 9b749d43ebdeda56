"""Answers of Spark over ledgers in memory, to hold against the cases and against DuckDB."""

import random

import pyarrow as pa
from pyspark.sql import SparkSession

from ledger import catalog
from ledger.adapters.arrow_schema import arrow_schema
from ledger.adapters.duck.engine import Snapshot, connect
from ledger.domain.offsets.translation import translate_commit
from ledger.schema import TABLES
from tests.support.cases import Case
from tests.support.generated_ledgers import (
    FLOW,
    commit_at,
    group_of,
    known_map,
    last_but_one_append_ms,
    ledger_of,
    offsets,
)
from tests.support.histories import random_history
from tests.support.spark_views import register_derived_views, run_query

PARAMS: dict[str, catalog.Value] = {"flow": FLOW, "driver_lives": True}
VIEWS = (
    "last_syncs",
    "effective_syncs",
    "current_maps",
    "segments",
    "gaps",
    "last_high_watermarks",
    "ended_topics",
)


class SparkLedger:
    """Tables of one ledger after another under the same names; views are registered once and resolve at use."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        for table in TABLES:
            self._register(table.name, arrow_schema(table).empty_table())
        register_derived_views(spark)

    def read(self, snapshot: Snapshot) -> None:
        """Have all tables, and with them all views, be those of a snapshot."""
        for table in TABLES:
            relation = snapshot.relation(table.name)
            assert isinstance(relation, pa.Table)
            self._register(table.name, relation)

    def assert_answers(self, case: Case) -> None:
        """Spark gives a case's answer, in columns of the types that the query's header names."""
        query = catalog.query(case.query)
        self.read(case)
        answer = run_query(self._spark, query, case.params(query))
        assert [row.asDict() for row in answer.collect()] == case.expected(query).to_pylist()
        assert [(field.name, field.dataType.simpleString()) for field in answer.schema] == [
            (column.name, column.type) for column in query.columns
        ]

    def assert_agrees_on_history(self, seed: int) -> None:
        """Of a generated history Spark translates every offset as the algebra, and has DuckDB's views."""
        print(f"MIRROR_LEDGER_SEED={seed}")
        history = random_history(random.Random(seed))
        log_start = history.target_start + 2
        snapshot = ledger_of(history, log_start)
        self.read(snapshot)
        known = known_map(history, log_start, last_but_one_append_ms=last_but_one_append_ms([history]))
        translated = {offset: translate_commit([known], commit_at(offset)) for offset in offsets(history)}
        rows = run_query(self._spark, catalog.query("offset_translation"), PARAMS).collect()
        assert {row.group_id: (row.target_offset, row.status) for row in rows} == {
            group_of(offset): (found.target_offset, found.status.value)
            for offset, found in translated.items()
        }
        for view in VIEWS:
            self.assert_same_view(snapshot, view)

    def assert_same_view(self, snapshot: Snapshot, view: str) -> None:
        """A view of the snapshot that was read has the same rows on both engines."""
        rows = self._spark.table(view).collect()
        found = sorted(str(sorted(row.asDict(recursive=True).items())) for row in rows)
        assert found == _duck_rows(snapshot, view)

    def _register(self, table: str, relation: pa.Table) -> None:
        self._spark.createDataFrame(relation).createOrReplaceTempView(table)


def _duck_rows(snapshot: Snapshot, view: str) -> list[str]:
    with connect(snapshot, {}) as connection:
        rows = connection.table(view).to_arrow_table().to_pylist()
    return sorted(str(sorted(row.items())) for row in rows)
