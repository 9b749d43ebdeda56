"""Rows of the newest version of each table, opened anew at every look: no JVM, no time travel."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ledger.adapters.delta.kept_rows import KeptRows
from ledger.adapters.delta.reading import relation_of
from ledger.adapters.delta.tables import table_uri
from ledger.adapters.duck.engine import ParquetFiles, Relation
from ledger.adapters.duck.rows import filtered_rows, last_recorded_at_ms, newest_rows
from ledger.domain.operations.order import in_order
from ledger.errors import LedgerUnavailableError
from ledger.recording.row_source import Filter
from ledger.schema import OPERATIONS, STAMP, TABLE_BY_NAME, TABLES, WRITERS

_ASKED_AGAIN = OPERATIONS.name
"""A driver asks it for requests before every round."""
_STAMP_NAMES = {column.name for column in STAMP}


class DeltaRows:
    """Implements `recording.row_source.RowSource`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept: dict[str, KeptRows] = {}

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        with self._told_when_unreadable(table):
            return in_order(self._passing(table, filters))

    def newest(self, table: str, filters: Sequence[Filter], grain: Sequence[str]) -> list[dict[str, Any]]:
        columns = [name for name in TABLE_BY_NAME[table].column_names if name not in _STAMP_NAMES]
        with self._told_when_unreadable(table):
            return newest_rows(self._relation(table), filters, grain, columns)

    def claims(self, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        return self.rows(WRITERS.name, filters)

    def last_recorded_at_ms(self, writer: str) -> int | None:
        appended = []
        for table in TABLES:
            with self._told_when_unreadable(table.name):
                appended.append(last_recorded_at_ms(self._relation(table.name), writer))
        return max((at_ms for at_ms in appended if at_ms is not None), default=None)

    def _passing(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        relation = self._relation(table)
        if table != _ASKED_AGAIN or not isinstance(relation, ParquetFiles):
            return filtered_rows(relation, filters)
        kept = self._kept.setdefault(repr(filters), KeptRows())
        return kept.of(relation, lambda files: filtered_rows(files, filters))

    def _relation(self, table: str) -> Relation:
        return relation_of(DeltaTable(table_uri(self._path, table)), table)

    @contextmanager
    def _told_when_unreadable(self, table: str) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError, pa.ArrowException, duckdb.Error) as error:
            raise LedgerUnavailableError(
                f"the ledger's table {table_uri(self._path, table)} cannot be read: {error}; nothing was done that "
                "needs it"
            ) from error
