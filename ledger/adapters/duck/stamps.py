"""What the stamps of a table's rows say: which appends count at a cut, and when something was recorded.

Only the four columns of the stamp are read. `domain.tables.places` says what orders them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from duckdb import ColumnExpression, ConstantExpression, FunctionExpression

from ledger.adapters.duck.engine import ParquetFiles, Relation, register
from ledger.adapters.duck.in_process import connected
from ledger.domain.tables.cuts import ClockStep, LastAppend
from ledger.domain.tables.places import ROUNDS_PER_EPOCH, epoch_and_round, place_of

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


@dataclass(frozen=True, slots=True)
class Named:
    """What the rows say of an append that a cut names: when it was recorded, and the latest of those up to it."""

    recorded_at_ms: int | None
    until_ms: int | None


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


def named_appends(relation: Relation, last: Sequence[LastAppend]) -> list[Named]:
    """What the rows say of each of these appends, in their order."""
    named = pa.table(
        {
            "number": pa.array(range(len(last)), pa.int64()),
            "writer": pa.array([append.writer for append in last], pa.string()),
            "place": pa.array([place_of(append.epoch, append.round) for append in last], pa.int64()),
        }
    )
    with _readable(relation) as connection:
        connection.register("named", named)
        return [Named(at_ms, until_ms) for at_ms, until_ms in connection.execute(_NAMED).fetchall()]


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
        register(connection, "wanted", relation)
        yield connection
