"""Rows of the ledger's tables, read without a JVM: the files of a version, what their stamps say, and filters."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from duckdb import ColumnExpression, ConstantExpression, Expression, FunctionExpression

from ledger.facts.cuts import ClockStep, LastAppend
from ledger.facts.tables import (
    ROUNDS_PER_EPOCH,
    TABLE_BY_NAME,
    Comparison,
    Filter,
    epoch_and_round,
    place_of,
)
from ledger.store.delta_tables import arrow_schema
from ledger.store.fetched import places
from ledger.store.sql import ParquetFiles, Relation, connected, register

# Files --------------------------------------------------------------------------------------------


_GLOB = re.compile(r"[*?\[\]]")


def relation_of(table: DeltaTable, name: str) -> "pa.Table | ParquetFiles":
    """The rows of a table of the ledger, as DuckDB reads them."""
    if not (sizes := file_sizes(table)):
        return arrow_schema(TABLE_BY_NAME[name]).empty_table()
    paths = places(table, sizes)
    if not any(map(_GLOB.search, paths)):
        return ParquetFiles(tuple(paths), TABLE_BY_NAME[name].column_names)
    # By deltalake, which reads paths as they are written.
    return table.to_pyarrow_table(columns=list(TABLE_BY_NAME[name].column_names))


def file_sizes(table: DeltaTable) -> dict[str, int]:
    """Bytes of each file, the largest first: by the first one DuckDB takes how many rows the others have, for joins."""
    actions = table.get_add_actions()
    sizes = zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    return dict(sorted(sizes, key=lambda file: file[1], reverse=True))


def row_count(relation: Relation) -> int:
    """How many rows there are."""
    with connected() as connection:
        register(connection, "wanted", relation)
        [(rows,)] = connection.execute("select count(*) from wanted").fetchall()
    return int(rows)


# Stamps -------------------------------------------------------------------------------------------
# What the stamps of a table's rows say: which appends count at a cut, and when something was recorded.
#
# Only the four columns of the stamp are read. `facts.tables` says what orders them.


_NAME = "wanted"
_STAMPS = f"select writer, writer_epoch * {ROUNDS_PER_EPOCH} + round as place, recorded_at_ms from wanted"
_LAST = f"""
with stamps as ({_STAMPS}),

late as (
    select writer, min(place) as place
    from stamps
    where recorded_at_ms > ?
    group by writer
),

counted as (
    select s.writer, s.place, s.recorded_at_ms
    from stamps as s
    left join late as l on l.writer = s.writer
    where coalesce(s.place < l.place, true)
)

select writer, max(place), arg_max(recorded_at_ms, {{'place': place, 'at': recorded_at_ms}})
from counted
group by writer
"""
_NAMED = f"""
with stamps as ({_STAMPS})

select max(case when s.place = n.place then s.recorded_at_ms end), max(s.recorded_at_ms)
from named as n
left join stamps as s on s.writer = n.writer and s.place <= n.place
group by n.number
order by n.number
"""
_NEWEST = f"""
with stamps as ({_STAMPS})

select writer, max(place), arg_max(recorded_at_ms, {{'place': place, 'at': recorded_at_ms}})
from stamps
group by writer
"""
_BACK = f"""
with stamps as ({_STAMPS}),

appends as (
    select writer, place, min(recorded_at_ms) as recorded_at_ms
    from stamps
    group by writer, place
),

ordered as (
    select writer, place, recorded_at_ms, lag(recorded_at_ms) over (partition by writer order by place) as before_ms
    from appends
)

select writer, place, recorded_at_ms, before_ms
from ordered
where recorded_at_ms < before_ms
order by writer, place
"""


def last_appends(table: str, relation: Relation, *, until_ms: int | None = None) -> list[LastAppend]:
    """Per writer the last append such that it and all before it were recorded at or before a time; None: the last."""
    with _readable(relation) as connection:
        found = (
            connection.execute(_NEWEST) if until_ms is None else connection.execute(_LAST, [until_ms])
        ).fetchall()
    return [LastAppend(table, writer, *epoch_and_round(place), at_ms) for writer, place, at_ms in found]


def recorded_from_to_ms(relation: Relation) -> tuple[int, int] | None:
    """When the first and the last row were recorded, by the clocks of those who did; None: there is no row."""
    with _readable(relation) as connection:
        [(first_ms, last_ms)] = connection.execute(
            "select min(recorded_at_ms), max(recorded_at_ms) from wanted"
        ).fetchall()
    return None if first_ms is None else (first_ms, last_ms)


def last_recorded_at_ms(relation: Relation, writer: str | None = None) -> int | None:
    """When the writer, None: anybody, last appended to the table; None: never."""
    with _readable(relation) as connection:
        [(at_ms,)] = connection.execute(
            "select max(recorded_at_ms) from wanted where writer = coalesce(?, writer)", [writer]
        ).fetchall()
    return None if at_ms is None else int(at_ms)


def last_recorded_of_each(files: ParquetFiles, writer: str) -> dict[str, int]:
    """The same by the path of each of these files that has rows of the writer."""
    with connected() as connection:
        rows = connection.read_parquet(list(files.paths), filename=True)
        of_writer = rows.filter(ColumnExpression("writer") == ConstantExpression(writer))
        last = FunctionExpression("max", ColumnExpression("recorded_at_ms"))
        return dict(of_writer.aggregate([ColumnExpression("filename"), last]).fetchall())


def named_appends(relation: Relation, last: Sequence[LastAppend]) -> list[tuple[int | None, int | None]]:
    """When each of these appends was recorded as the rows say, and the latest of those up to it, in their order."""
    named = pa.table(
        {
            "number": pa.array(range(len(last)), pa.int64()),
            "writer": pa.array([append.writer for append in last], pa.string()),
            "place": pa.array([place_of(append.epoch, append.round) for append in last], pa.int64()),
        }
    )
    with _readable(relation) as connection:
        connection.register("named", named)
        return connection.execute(_NAMED).fetchall()


def steps_back(table: str, relation: Relation) -> list[ClockStep]:
    """Where the times of a table's rows fall from one append of a writer to its next."""
    with _readable(relation) as connection:
        return [
            ClockStep(table, writer, *epoch_and_round(place), at_ms, before_ms)
            for writer, place, at_ms, before_ms in connection.execute(_BACK).fetchall()
        ]


@contextmanager
def _readable(relation: Relation) -> Iterator[duckdb.DuckDBPyConnection]:
    with connected() as connection:
        register(connection, _NAME, relation)
        yield connection


# Row filters --------------------------------------------------------------------------------------
# Rows of one table that pass simple filters, read by DuckDB.
#
# deltalake would read them in threads of Arrow through file objects of Python. A process that had read so
# was seen to abort at its end (`terminate called without an active exception`), after it had done its work:
# its exit code was lost.


PLACE = ColumnExpression("writer_epoch") * ConstantExpression(ROUNDS_PER_EPOCH) + ColumnExpression("round")
"""A row's place in its writer's order."""


def filtered_rows(relation: Relation, filters: Sequence[Filter]) -> list[dict[str, Any]]:
    """The rows that pass all filters, in no particular order."""
    return list(arrow_rows(relation, filters).to_pylist())


def arrow_rows(relation: Relation, filters: Sequence[Filter]) -> pa.Table:
    """The same as they are read: an object of Python takes many times the memory of a row."""
    if isinstance(relation, pa.Table) and not relation.num_rows:
        return relation
    with _readable(relation) as connection:
        return _filtered(connection.view(_NAME), filters).to_arrow_table()


def passing_rows(rows: pa.Table, filters: Sequence[Filter]) -> list[dict[str, Any]]:
    """Of rows that were read those that pass all filters."""
    if not rows.num_rows:
        return []
    for column, comparison, value in filters:
        rows = rows.filter(_passes(rows.column(column), comparison, value))
    return list(rows.to_pylist())


def _passes(column: pa.ChunkedArray, comparison: Comparison, value: Any) -> pa.ChunkedArray:
    """Of each value whether it passes; null where nobody can say."""
    import pyarrow.compute as pc  # answers that read no such rows would wait for it

    match comparison:
        case "=":
            return pc.equal(column, pa.scalar(value, column.type))
        case "<":
            return pc.less(column, pa.scalar(value, column.type))
        case ">=":
            return pc.greater_equal(column, pa.scalar(value, column.type))
        case "in":
            return pc.is_in(column, pa.array(value, column.type))
        case "not in":
            is_free = pc.invert(pc.is_in(column, pa.array(value, column.type)))
            return pc.and_(is_free, column.is_valid()) if len(value) else is_free


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
    with _readable(relation) as connection:
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
