"""Answers of Spark over ledgers in memory, to hold against the cases and against DuckDB."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ledger.answers.spark import answer, functions
from ledger.store import catalog
from ledger.store.catalog import Query, Value
from ledger.store.sql import Snapshot, connect
from tests.support.cases import Case
from tests.support.histories import ledger_of, random_history
from tests.support.query_mutants import CURRENT_MAPS

EVERY_ROW = CURRENT_MAPS
"""A query without parameters."""
VIEWS = (
    "last_syncs",
    "effective_syncs",
    "current_maps",
    "segments",
    "gaps",
    "last_high_watermarks",
    "ended_topics",
    "source_truncations",
)

_NOTHING = Case("", "a ledger without rows", {})


class SparkLedger:
    """Ledgers in memory, one after another, as `jobs/answer.py` reads those on disk."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = spark.newSession()
        for function in functions():
            self._session.sql(function)

    def assert_answers(self, case: Case) -> None:
        """Spark gives a case's answer, in columns of the types that the query's header names."""
        query = catalog.query(case.query)
        found = self._answer(query, case, case.params(query))
        assert [row.asDict() for row in found.collect()] == case.expected(query).to_pylist()
        assert [(field.name, field.dataType.simpleString()) for field in found.schema] == [
            (column.name, column.type) for column in query.columns
        ]

    def assert_agrees_on_history(self, seed: int) -> None:
        """Of a generated history Spark has DuckDB's views."""
        print(f"MIRROR_LEDGER_SEED={seed}")
        history = random_history(random.Random(seed))
        self.assert_same_views(ledger_of(history, history.target_start + 2), VIEWS)

    def assert_same_views(self, snapshot: Snapshot, views: Sequence[str]) -> None:
        """Views of a snapshot have the same rows on both engines."""
        with connect(snapshot, {}) as connection:
            for view in views:
                columns = ", ".join(connection.table(view).columns)
                every = replace(EVERY_ROW, reads=(view,), sql=f"select {columns}\nfrom {view}")
                found = [row.asDict(recursive=True) for row in self._answer(every, snapshot, {}).collect()]
                assert _lines(found) == _lines(connection.table(view).to_arrow_table().to_pylist())

    def assert_same_columns(self, queries: Iterable[Query]) -> set[str]:
        """Spark accepts every view, and every query, and finds the columns of either that DuckDB does; no row is read.

        Each view stands for the next ones as a table without rows: what is analysed is its own text. Returns the views.
        """
        names = (*catalog.view_names(), *catalog.names_between_clusters())
        self._read(_NOTHING, catalog.tables_of(names))
        with connect(_NOTHING, {}, names) as connection:
            for name, statement in catalog.views_of(names).items():
                self._session.sql(statement.rstrip().removesuffix(";"))
                made = self._session.table(name)
                assert sorted(made.columns) == sorted(connection.table(name).columns), name
                self._session.createDataFrame([], made.schema).createOrReplaceTempView(name)
        for query in queries:
            schema = ", ".join(f"{one.name} {one.type}" for one in query.params) or "nothing int"
            self._session.createDataFrame([], schema).createOrReplaceTempView("params")
            found = self._session.sql(query.sql).schema
            assert [(field.name, field.dataType.simpleString()) for field in found] == [
                (column.name, column.type) for column in query.columns
            ], query.name
        return set(names)

    def _answer(self, query: Query, snapshot: Snapshot, params: Mapping[str, Value]) -> DataFrame:
        query.check(params)
        self._read(snapshot, catalog.tables_of(query.reads))
        return answer(self._session, query, params, is_large=False)

    def _read(self, snapshot: Snapshot, tables: Iterable[str]) -> None:
        for table in tables:
            relation = snapshot.relation(table)
            assert isinstance(relation, pa.Table)
            self._session.createDataFrame(relation).createOrReplaceTempView(table)


def _lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)
