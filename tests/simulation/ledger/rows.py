"""Rows of a memory ledger by filters, with SQL's idea of null."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ledger.facts.tables import STAMP, TABLES, WRITERS, Comparison, Filter, in_order

_STAMP_NAMES = frozenset(column.name for column in STAMP)
_COMPARED: Mapping[Comparison, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
    "not in": lambda value, values: value not in values,
}


class Stored(Protocol):
    """A memory ledger, now or at an instant."""

    def stored(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table, in any order."""
        ...


class MemoryRows:
    """Implements `RowSource`."""

    def __init__(self, ledger: Stored) -> None:
        self._ledger = ledger

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        found = self._ledger.stored(table)
        for column, comparison, wanted in filters:
            if comparison == "not in" and not wanted:
                continue
            passes = _COMPARED[comparison]
            found = [row for row in found if row[column] is not None and passes(row[column], wanted)]
        return in_order(found)

    def newest(self, table: str, filters: Sequence[Filter], grain: Sequence[str]) -> list[dict[str, Any]]:
        last = {tuple(row[column] for column in grain): row for row in self.rows(table, filters)}
        return [
            {name: value for name, value in row.items() if name not in _STAMP_NAMES} for row in last.values()
        ]

    def claims(self, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        return self.rows(WRITERS.name, filters)

    def last_recorded_at_ms(self, writer: str) -> int | None:
        of_writer: Filter = ("writer", "=", writer)
        found = (row["recorded_at_ms"] for table in TABLES for row in self.rows(table.name, [of_writer]))
        return max(found, default=None)
