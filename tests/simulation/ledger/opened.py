"""A memory ledger as who opens one finds it: what the app layer reads a ledger by, at one instant."""

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from ledger.facts.cuts import Cut, LastAppend
from ledger.facts.tables import TABLE_BY_NAME, TABLES, Filter, place_of
from tests.simulation.ledger.rows import MemoryRows
from tests.simulation.ledger.tables import MemoryLedger

_ID = "a ledger in memory"


class OpenedSnapshot:
    """In place of `DeltaSnapshot`: all rows that a memory ledger had when it was opened."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._versions = ledger.latest()
        self._rows = {table.name: ledger.rows(table.name) for table in TABLES}

    @property
    def cut(self) -> Cut:
        return Cut.of(
            _ID,
            (
                max(of_writer, key=lambda append: place_of(append.epoch, append.round))
                for table, rows in self._rows.items()
                for of_writer in _by_writer(table, rows)
            ),
        )

    def relation(self, table: str) -> pa.Table:
        return self._ledger.at({table: self._versions[table]}).relation(table)

    def stored(self, table: str) -> list[dict[str, Any]]:
        return self._rows[table]

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        return MemoryRows(self).rows(table, filters)

    def last_recorded_in(self, table: str, writer: str) -> int | None:
        found = (row["recorded_at_ms"] for row in self._rows[table] if row["writer"] == writer)
        return max(found, default=None)

    def last_recorded_at_ms(self, writer: str | None = None) -> int:
        found = (row for rows in self._rows.values() for row in rows if writer in (None, row["writer"]))
        return max((row["recorded_at_ms"] for row in found), default=0)


def _by_writer(table: str, rows: Sequence[dict[str, Any]]) -> Collection[list[LastAppend]]:
    found: dict[str, list[LastAppend]] = {}
    for row in rows:
        append = LastAppend(table, row["writer"], row["writer_epoch"], row["round"], row["recorded_at_ms"])
        found.setdefault(append.writer, []).append(append)
    return found.values()


class OpenedLedger:
    """In place of `DeltaLedger`."""

    path = "memory"

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def now(self, tables: Collection[str] = TABLE_BY_NAME) -> OpenedSnapshot:
        assert set(tables) <= TABLE_BY_NAME.keys()
        return OpenedSnapshot(self._ledger)

    def as_of(self, as_of: str | None, *, now_ms: int) -> OpenedSnapshot:
        assert as_of is None, f"a ledger in memory is read as it is now, which is {now_ms}"
        return self.now()
