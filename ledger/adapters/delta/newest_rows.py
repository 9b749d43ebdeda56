"""Rows of the newest version of each table, opened again at every read: no JVM, no time travel."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ledger.adapters.delta.append_times import AppendTimes
from ledger.adapters.delta.damage import reported
from ledger.adapters.delta.kept_rows import KeptRows
from ledger.adapters.delta.last_rows import LastRowsReader
from ledger.adapters.delta.snapshots import relation_of
from ledger.adapters.delta.tables import newest_version, table_uri
from ledger.adapters.duck.engine import ParquetFiles, Relation, run_query
from ledger.adapters.duck.row_filters import filtered_rows, newest_rows
from ledger.catalog import Query, Value
from ledger.domain.operations.order import in_order
from ledger.domain.tables.last_rows import GRAINS
from ledger.recording.row_source import Filter
from ledger.schema import OFFSET_SYNCS, OPERATIONS, STAMP, TABLE_BY_NAME, TABLES, WRITERS

_ASKED_AGAIN = OPERATIONS.name
"""A driver asks it for requests before every round."""
_SEARCHED_FIRST = OFFSET_SYNCS.name
"""Most starts ask it for what is not there: adoptions, copies of former topics, other flows' copies."""
_STAMP_NAMES = {column.name for column in STAMP}


class DeltaRows:
    """Implements `recording.row_source.RowSource`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept: dict[str, KeptRows] = {}
        self._append_times: dict[tuple[str, str], AppendTimes] = {}
        self._last_rows = LastRowsReader(path)

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        with self._reporting_unreadable(table):
            return in_order(self._passing(table, filters))

    def newest(self, table: str, filters: Sequence[Filter], grain: Sequence[str]) -> list[dict[str, Any]]:
        columns = [name for name in TABLE_BY_NAME[table].column_names if name not in _STAMP_NAMES]
        with self._reporting_unreadable(table):
            is_noted = _decides(table, filters, grain) and not GRAINS[table].left_out
            relation = self._last_rows.of(table).last if is_noted else self.relation(table)
            return newest_rows(relation, filters, grain, columns)

    def claims(self, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        if not _decides(WRITERS.name, filters):
            return self.rows(WRITERS.name, filters)
        with self._reporting_unreadable(WRITERS.name):
            return in_order(filtered_rows(self._last_rows.of(WRITERS.name).last, filters))

    def last_recorded_at_ms(self, writer: str) -> int | None:
        appended = []
        for table in TABLES:
            with self._reporting_unreadable(table.name):
                appended.append(self._last_recorded_at_ms(table.name, writer))
        return max((at_ms for at_ms in appended if at_ms is not None), default=None)

    def answer_by_last_rows(self, asked: Query, params: Mapping[str, Value]) -> list[dict[str, Any]]:
        """What a query of the catalog answers that asks for last rows only. Raises as `rows`."""
        with self._reporting_unreadable():
            found: list[dict[str, Any]] = run_query(asked, params, _LastRows(self._last_rows)).to_pylist()
            return found

    def relation(self, table: str) -> Relation:
        """The rows of a table, whose files are read when somebody asks for them: raises what deltalake does."""
        return relation_of(newest_version(self._path, table), table)

    def _passing(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        if table == _SEARCHED_FIRST and _decides(table, filters) and not self._is_any(table, filters):
            return []
        relation = self.relation(table)
        if table != _ASKED_AGAIN or not isinstance(relation, ParquetFiles):
            return filtered_rows(relation, filters)
        kept = self._kept.setdefault(repr(filters), KeptRows())
        return kept.of(relation, lambda files: filtered_rows(files, filters))

    def _is_any(self, table: str, filters: Sequence[Filter]) -> bool:
        return bool(filtered_rows(self._last_rows.of(table).last, filters))

    def _last_recorded_at_ms(self, table: str, writer: str) -> int | None:
        if table in GRAINS and self._last_rows.are_known(table):
            last = self._last_rows.of(table).noted.until.get(writer)
            return None if last is None else last.latest_ms
        times = self._append_times.setdefault((table, writer), AppendTimes(table, writer))
        return times.last_ms(newest_version(self._path, table))

    def _reporting_unreadable(self, table: str | None = None) -> AbstractContextManager[None]:
        if table is None:
            return reported(
                f"the ledger at {self._path} cannot be read",
                *(table_uri(self._path, one.name) for one in TABLES),
            )
        uri = table_uri(self._path, table)
        return reported(f"the ledger's table {uri} cannot be read", uri)


def _decides(table: str, filters: Sequence[Filter], grain: Sequence[str] = ()) -> bool:
    """Whether the last rows of a table are enough for what is asked."""
    columns = {column for column, _, _ in filters}.union(grain)
    return table in GRAINS and GRAINS[table].decides(columns)


@dataclass(frozen=True, slots=True)
class _LastRows:
    """The last rows of each table for a query."""

    reader: LastRowsReader

    def relation(self, table: str) -> Relation:
        return self.reader.of(table).last
