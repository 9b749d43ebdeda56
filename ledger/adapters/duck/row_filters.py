"""Rows of one table that pass simple filters, read by DuckDB.

deltalake would read them in threads of Arrow through file objects of Python. A process that had read so was
seen to abort at its end (`terminate called without an active exception`), after it had done its work: its
exit code was lost.
"""

from collections.abc import Sequence
from typing import Any

import duckdb
from duckdb import ColumnExpression, ConstantExpression, Expression, FunctionExpression

from ledger.adapters.duck.engine import Relation, register
from ledger.adapters.duck.in_process import connected
from ledger.domain.tables.places import ROUNDS_PER_EPOCH
from ledger.recording.row_source import Comparison, Filter

_NAME = "wanted"
PLACE = ColumnExpression("writer_epoch") * ConstantExpression(ROUNDS_PER_EPOCH) + ColumnExpression("round")
"""A row's place in its writer's order."""


def filtered_rows(relation: Relation, filters: Sequence[Filter]) -> list[dict[str, Any]]:
    """The rows that pass all filters, in no particular order."""
    with connected() as connection:
        register(connection, _NAME, relation)
        return list(_filtered(connection.view(_NAME), filters).to_arrow_table().to_pylist())


def newest_rows(
    relation: Relation, filters: Sequence[Filter], grain: Sequence[str], columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Of each combination of the `grain` the `columns` of the row recorded last, of those that pass all filters.

    The rows of a combination have to be of one writer, whose epoch and round order them. Only what is asked for
    becomes an object of Python: a table may have millions of rows.
    """
    newest = [
        FunctionExpression("arg_max_null", ColumnExpression(column), PLACE).alias(column)
        for column in columns
        if column not in grain
    ]
    with connected() as connection:
        register(connection, _NAME, relation)
        found = _filtered(connection.view(_NAME), filters)
        of_each = found.aggregate([*map(ColumnExpression, grain), *newest])
        return list(of_each.select(*map(ColumnExpression, columns)).to_arrow_table().to_pylist())


def _filtered(found: duckdb.DuckDBPyRelation, filters: Sequence[Filter]) -> duckdb.DuckDBPyRelation:
    for column, comparison, value in filters:
        found = found.filter(_condition(ColumnExpression(column), comparison, value))
    return found


def _condition(column: Expression, comparison: Comparison, value: Any) -> Expression:
    match comparison:
        case "=":
            return column == ConstantExpression(value)
        case "<":
            return column < ConstantExpression(value)
        case ">=":
            return column >= ConstantExpression(value)
        case "in":
            return _is_one_of(column, value)
        case "not in":
            return ~_is_one_of(column, value)


def _is_one_of(column: Expression, values: Sequence[Any]) -> Expression:
    """Nothing is one of none; DuckDB has no empty list here."""
    return column.isin(*map(ConstantExpression, values)) if values else ConstantExpression(False)
