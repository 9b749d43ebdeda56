"""A ledger held in memory as Arrow tables: the same words as the one on Delta, for tests and simulations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ledger.adapters.arrow_schema import arrow_rows, arrow_schema
from ledger.errors import InvalidValueError
from ledger.schema import TABLE_BY_NAME, TABLES

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The tables of a memory ledger, each after so many appends."""

    versions: Mapping[str, int]
    tables: Mapping[str, pa.Table]

    def relation(self, table: str) -> pa.Table:
        return self.tables[table]


@dataclass(slots=True)
class MemoryLedger:
    """Append-only: each append to a table makes its next version; version 0 is empty.

    `transactions`: last version that a writer stamped on its appends to a table, by (table, writer).
    """

    transactions: dict[tuple[str, str], int] = field(default_factory=dict)
    _appends: dict[str, list[pa.Table]] = field(default_factory=dict)
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def append(self, table: str, rows: Sequence[Row]) -> int:
        """Append rows that name every column of the table; the version that this made."""
        if table not in TABLE_BY_NAME:
            raise InvalidValueError(f"no table {table!r} in a ledger; nothing was appended")
        appended = arrow_rows(TABLE_BY_NAME[table], rows)
        appends = self._appends.setdefault(table, [])
        appends.append(appended)
        self._rows.setdefault(table, []).extend(appended.to_pylist())
        return len(appends)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table in the order of appending, as they are now."""
        return list(self._rows.get(table, ()))

    def latest(self) -> dict[str, int]:
        """The version of each table: how many appends it has."""
        return {table.name: len(self._appends.get(table.name, ())) for table in TABLES}

    def at(self, versions: Mapping[str, int]) -> MemorySnapshot:
        return MemorySnapshot(versions, {name: self._table(name, after) for name, after in versions.items()})

    def _table(self, name: str, version: int) -> pa.Table:
        empty = arrow_schema(TABLE_BY_NAME[name]).empty_table()
        return pa.concat_tables([empty, *self._appends.get(name, [])[:version]])
