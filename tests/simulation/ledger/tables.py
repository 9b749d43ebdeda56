"""A ledger held in memory as Arrow tables: the same words as the one on Delta, for tests and simulations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ledger.errors import InvalidValueError, LedgerUnavailableError
from ledger.facts.tables import TABLE_BY_NAME, TABLES, place_of
from ledger.store.delta_tables import arrow_rows, arrow_schema
from ledger.store.merging import SORTED_BY

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

    `transactions`: last version that a writer stamped on its appends to a table, by (table, writer). `is_away`: nobody
    can read it or append to it; `goes_with_an_answer`: it takes the next append, and is away before it says so.
    """

    transactions: dict[tuple[str, str], int] = field(default_factory=dict)
    is_away: bool = False
    goes_with_an_answer: bool = False
    _appends: dict[str, list[pa.Table]] = field(default_factory=dict)
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _files: dict[str, dict[int, list[dict[str, Any]]]] = field(default_factory=dict)
    _last_file: int = 0

    def append(self, table: str, rows: Sequence[Row]) -> int:
        """Append rows that name every column of the table; the version that this made."""
        if table not in TABLE_BY_NAME:
            raise InvalidValueError(f"no table {table!r} in a ledger; nothing was appended")
        self.require_there()
        appended = arrow_rows(TABLE_BY_NAME[table], rows)
        appends = self._appends.setdefault(table, [])
        appends.append(appended)
        self._rows.setdefault(table, []).extend(appended.to_pylist())
        self._add_file(table, appended.to_pylist())
        if self.goes_with_an_answer:
            self.goes_with_an_answer, self.is_away = False, True
            self.require_there()
        return len(appends)

    def go_back(self, versions: Mapping[str, int]) -> None:
        """Become what a copy of it is that was made after so many appends to each table."""
        for table, after in versions.items():
            self._appends[table] = self._appends.get(table, [])[:after]
            self._rows[table] = [row for one in self._appends[table] for row in one.to_pylist()]
            self._files[table] = {}
            self._add_file(table, list(self._rows[table]))
        self.transactions.clear()
        for table, rows in self._rows.items():
            for row in rows:
                key, place = (table, row["writer"]), place_of(row["writer_epoch"], row["round"])
                self.transactions[key] = max(place, self.transactions.get(key, 0))

    def require_there(self) -> None:
        if self.is_away:
            raise LedgerUnavailableError("the store does not answer")

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table in the order of appending, as they are now."""
        self.require_there()
        return list(self._rows.get(table, ()))

    def stored(self, table: str) -> list[dict[str, Any]]:
        """The same rows as the files of the newest version hold them, one file after the other."""
        self.require_there()
        return [row for rows in self._files.get(table, {}).values() for row in rows]

    def files(self, table: str) -> list[int]:
        """What the newest version consists of: the files of appends, and those that merges made of them."""
        return list(self._files.get(table, {}))

    def rows_by_file(self, table: str) -> dict[str, list[dict[str, Any]]]:
        """The rows of each of these files, by its name."""
        self.require_there()
        return {str(file): rows for file, rows in self._files.get(table, {}).items()}

    def merge(self, table: str, files: Sequence[int]) -> bool:
        """Put one file in the place of several, sorted as merges on disk are; False when one of them is gone."""
        found = self._files.get(table, {})
        if not set(files) <= found.keys():
            return False
        rows = [row for file in files for row in found.pop(file)]
        order = (*SORTED_BY.get(table, ()), "writer", "writer_epoch", "round")
        self._add_file(table, sorted(rows, key=lambda row: [row[column] for column in order]))
        return True

    def _add_file(self, table: str, rows: list[dict[str, Any]]) -> None:
        self._last_file += 1
        self._files.setdefault(table, {})[self._last_file] = rows

    def latest(self) -> dict[str, int]:
        """The version of each table: how many appends it has."""
        return {table.name: len(self._appends.get(table.name, ())) for table in TABLES}

    def at(self, versions: Mapping[str, int]) -> MemorySnapshot:
        return MemorySnapshot(versions, {name: self._table(name, after) for name, after in versions.items()})

    def _table(self, name: str, version: int) -> pa.Table:
        empty = arrow_schema(TABLE_BY_NAME[name]).empty_table()
        return pa.concat_tables([empty, *self._appends.get(name, [])[:version]])
