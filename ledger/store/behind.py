"""Rows of a table behind those that were noted, read without the files that hold none of them.

`facts.last_rows` says why that can be relied on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import ref

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from ledger.clock import HOUR_MS
from ledger.facts.last_rows import GRAINS, FileStamps, LastPlace, Noted, Split
from ledger.facts.tables import ROUNDS_PER_EPOCH, TABLE_BY_NAME
from ledger.store.delta_tables import arrow_schema, in_schema
from ledger.store.relations import relation_of
from ledger.store.sql import ParquetFiles, Relation, connected, register, selected, sql_file

_UNTIL = pa.schema({"noted_writer": pa.string(), "noted_place": pa.int64()})


def file_stamps(opened: DeltaTable) -> list[FileStamps]:
    """The files of a version with what the log says of their rows."""
    actions = pa.table(opened.get_add_actions(flatten=True))
    return [_stamps(action) for action in actions.to_pylist()]


def _stamps(action: dict[str, Any]) -> FileStamps:
    first, last = action.get("min.writer"), action.get("max.writer")
    return FileStamps(
        action["path"],
        action.get("num_records"),
        writers=None if first is None or last is None else (first, last),
        last_epoch=action.get("max.writer_epoch"),
        last_round=action.get("max.round"),
        last_ms=action.get("max.recorded_at_ms"),
        first_ms=action.get("min.recorded_at_ms"),
    )


@dataclass(frozen=True, slots=True)
class Behind:
    """Rows behind those that were noted, as the relation `behind` of a connection; `noted`: with these."""

    connection: duckdb.DuckDBPyConnection
    noted: Noted

    def appended_ms(self) -> dict[str, int]:
        """By writer of these rows when its last append was recorded."""
        found = self.connection.execute(
            f"select writer, arg_max(recorded_at_ms, {{'place': writer_epoch * {ROUNDS_PER_EPOCH} + round, "
            "'at': recorded_at_ms}) from behind group by writer"
        )
        return dict(found.fetchall())

    def parts(self, least_rows: int) -> list[int]:
        """Until when each part of these rows was recorded, in milliseconds: whole hours, with so many rows or more.

        In front of each such time are the rows up to a place of every writer. Of the last part there may be fewer.
        """
        parts = list[int]()
        rows = 0
        for hour, of_hour, is_end in self.connection.execute(sql_file("hours_behind.sql")).fetchall():
            rows, last_ms = rows + of_hour, (hour + 1) * HOUR_MS - 1
            if is_end and rows >= least_rows:
                parts.append(last_ms)
                rows = 0
        return [*parts, last_ms] if rows else parts


@contextmanager
def read_behind(
    opened: DeltaTable, table: str, noted: Noted, *, until_ms: int | None = None
) -> Iterator[Behind | None]:
    """The rows of a version behind those that were noted, of those that were recorded up to a time, None: of all.

    None where what was noted does not account for the files; it does where nothing was.
    """
    files: Relation | None = relation_of(opened, table)
    split = Split((), 0)
    if isinstance(files, ParquetFiles):
        split = Split.of(file_stamps(opened), noted)
        files = files.named(
            {file.name for file in split.read if until_ms is None or (file.first_ms or 0) <= until_ms}
        )
    with connected() as connection:
        register(
            connection, "files", arrow_schema(TABLE_BY_NAME[table]).empty_table() if files is None else files
        )
        until = noted.until
        places = {"noted_writer": list(until), "noted_place": [at.place for at in until.values()]}
        connection.register("until", pa.table(places, schema=_UNTIL))
        condition = "true" if until_ms is None else f"recorded_at_ms <= {int(until_ms)}"
        connection.execute(_PLACED + condition)
        asked = ref(opened), opened.version(), noted, until_ms
        known = _last_counted.get(opened.table_uri)
        if known is None or known[0][0]() is not opened or known[0][1:] != asked[1:]:
            known = _last_counted[opened.table_uri] = asked, _counted(connection, noted)
        noted_rows, reached, first_ms = known[1]
        names = ", ".join(f'"{name}"' for name in TABLE_BY_NAME[table].column_names)
        connection.execute(
            f"create or replace temporary view behind as select {names} from rows_placed "
            f"where recorded_at_ms >= {first_ms} and is_new"  # by the time alone files say where rows of it are
        )
        is_whole = split.misses_nothing(noted, noted_rows_read=noted_rows)
        yield Behind(connection, reached) if is_whole else None


_Asked = tuple[ref[DeltaTable], int, Noted, int | None]
_last_counted: dict[str, tuple[_Asked, tuple[int, Noted, int]]] = {}
"""By table what was counted last, of which version behind what: its files never change, and a plan asks many times."""
_PLACED = f"""
create or replace temporary view rows_placed as
select
    f.*,
    f.writer_epoch * {ROUNDS_PER_EPOCH} + f.round as place,
    coalesce(f.writer_epoch * {ROUNDS_PER_EPOCH} + f.round > n.noted_place, true) as is_new
from files as f
left join until as n on n.noted_writer = f.writer
where """


def _counted(connection: duckdb.DuckDBPyConnection, noted: Noted) -> tuple[int, Noted, int]:
    """How many of `rows_placed` were noted already, up to where all reach, and when the first new one was recorded."""
    per_writer = connection.execute(
        "select writer, count(*), count(*) filter (is_new), max(place), max(recorded_at_ms), "
        "min(recorded_at_ms) filter (is_new) from rows_placed group by writer"
    ).fetchall()
    until = dict(noted.until)
    noted_rows = new_rows = 0
    first_ms = min((row[-1] for row in per_writer if row[-1] is not None), default=0)
    for writer, rows, new, place, latest_ms, _ in per_writer:
        noted_rows, new_rows = noted_rows + rows - new, new_rows + new
        at = LastPlace.of_place(place, latest_ms)
        until[writer] = at.further(until.get(writer, at))
    return noted_rows, Noted.of(noted.rows + new_rows, until), first_ms


# Last rows ----------------------------------------------------------------------------------------


def last_rows_schema(table: str) -> pa.Schema:
    """What is kept of a last row."""
    schema, left_out = arrow_schema(TABLE_BY_NAME[table]), GRAINS[table].left_out
    return pa.schema([field for field in schema if field.name not in left_out])


def last_of_each(connection: duckdb.DuckDBPyConnection, table: str, rows: str) -> pa.Table:
    """Of the `rows` of a connection, of each combination of the table's grain those of the last append."""
    schema, grain = last_rows_schema(table), GRAINS[table].of_each
    place = f"r.writer_epoch * {ROUNDS_PER_EPOCH} + r.round"
    is_of_it = " and ".join(f"r.{name} is not distinct from n.{name}" for name in grain)
    found = selected(
        connection,
        f"select {', '.join(f'r.{name}' for name in schema.names)} from {rows} as r semi join "
        f"(select {', '.join(grain)}, max({place}) as place from {rows} as r group by {', '.join(grain)}) as n "
        f"on {place} = n.place and {is_of_it}",
    )
    return in_schema(found, schema)
