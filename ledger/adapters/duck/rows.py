"""Rows of one table that pass simple filters, read by DuckDB.

deltalake would read them through file objects of Python in threads of Arrow. When one of those lets go of its
file while the interpreter shuts down, the process aborts, and a command that has done its work exits with -6.
"""

from collections.abc import Sequence
from typing import Any

import duckdb
from duckdb import ColumnExpression, ConstantExpression, Expression

from ledger.adapters.duck.engine import Relation, register

Filter = tuple[str, str, Any]
"""Column, `=`, `>=`, `in` or `not in`, and the value or values."""

_NAME = "wanted"


def filtered_rows(relation: Relation, filters: Sequence[Filter]) -> list[dict[str, Any]]:
    """The rows that pass all filters, in no particular order."""
    with duckdb.connect(":memory:") as connection:
        register(connection, _NAME, relation)
        found = connection.view(_NAME)
        for column, comparison, value in filters:
            found = found.filter(_condition(ColumnExpression(column), comparison, value))
        return list(found.to_arrow_table().to_pylist())


def last_recorded_at_ms(relation: Relation, writer: str) -> int | None:
    """When the writer last appended to the table; None: never."""
    with duckdb.connect(":memory:") as connection:
        register(connection, _NAME, relation)
        found = connection.execute("select max(recorded_at_ms) from wanted where writer = ?", [writer])
        [(at_ms,)] = found.fetchall()
        return None if at_ms is None else int(at_ms)


def _condition(column: Expression, comparison: str, value: Any) -> Expression:
    match comparison:
        case "=":
            return column == ConstantExpression(value)
        case ">=":
            return column >= ConstantExpression(value)
        case "in":
            return column.isin(*(ConstantExpression(one) for one in value))
        case "not in":
            return column.isnotin(*(ConstantExpression(one) for one in value))
    raise AssertionError(f"no comparison {comparison!r}")
