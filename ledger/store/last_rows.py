"""Last rows of the ledger's tables, read without reading the tables: by what was noted of them, and what is new.

They are noted in `operations` (`facts.last_rows` says why that can be relied on), and kept from read to read. A
table in a store is read as a whole: there no file is left out.
"""

import logging
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from duckdb import ColumnExpression, Expression, FunctionExpression, StarExpression

from ledger.errors import InvalidValueError
from ledger.facts.last_rows import GRAINS, LAST_ROWS, FileStamps, LastPlace, LastRows, Noted, Split
from ledger.facts.roles import OPERATOR_WRITER
from ledger.facts.tables import OPERATIONS, ROUNDS_PER_EPOCH, TABLE_BY_NAME
from ledger.store.delta_tables import arrow_schema, newest_version, opened_at, table_id, table_uri
from ledger.store.relations import PLACE, relation_of
from ledger.store.sql import ParquetFiles, Relation, connected, register

log = logging.getLogger(__name__)

_UNTIL = pa.schema({"noted_writer": pa.string(), "noted_place": pa.int64()})


@dataclass(frozen=True, slots=True)
class TableLastRows:
    """The last rows of a table, up to where they are, and the version of the table that was read for them, if any.

    `was_short`: files were left out, or could have been.
    """

    noted: Noted
    last: pa.Table
    version: int | None = None
    was_short: bool = False


class LastRowsReader:
    """The last rows of tables as of each call; safe to use from several threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._contents: Mapping[str, str] | None = None
        self._kept: dict[str, TableLastRows] = {}

    def are_known(self, table: str) -> bool:
        """Whether those of a table are kept, or were noted: so no read of them is one of all rows. Raises as `of`."""
        return table in self._kept or table in self._noted()

    def of(self, table: str) -> TableLastRows:
        """Those of a table of `GRAINS`; raises what deltalake and DuckDB raise where it cannot be read."""
        contents = self._noted()
        # Opened afterwards: it has all that was noted.
        opened = newest_version(self._path, table)
        if opened is None:
            return _nothing(table)
        known = self._kept[table] if table in self._kept else _usable(opened, table, contents)
        if known is None or known.version != opened.version():
            known = read_last_rows(opened, table, known)
        self._kept[table] = known  # of two threads that read at once one reads in vain
        return known

    def _noted(self) -> Mapping[str, str]:
        if self._contents is None:
            self._contents = _newest_contents(self._path, list(GRAINS))
        return self._contents


def columns_of(table: str) -> list[str]:
    """What is noted of a row."""
    left_out = GRAINS[table].left_out
    return [name for name in TABLE_BY_NAME[table].column_names if name not in left_out]


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


def read_last_rows(opened: DeltaTable, table: str, known: TableLastRows | None) -> TableLastRows:
    """The last rows of a version, by those that are `known` of it; where these do not account for it, by all files."""
    relation = relation_of(opened, table)
    if known is not None and isinstance(relation, ParquetFiles):
        split = Split.of(file_stamps(opened), known.noted)
        found, noted_rows = _read_behind(table, relation.named({file.name for file in split.read}), known)
        if split.misses_nothing(known.noted, noted_rows_read=noted_rows):
            return replace(found, version=opened.version(), was_short=True)
        log.debug("%s: what was noted does not account for its files; all of them are read", table)
    found, _ = _read_behind(table, relation, _nothing(table))
    return replace(found, version=opened.version())


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


@contextmanager
def read_behind(
    opened: DeltaTable, table: str, noted: Noted, *, until_ms: int | None = None
) -> Iterator[Behind | None]:
    """The rows of a version behind those that were noted, of files that begin before a time, None: of all.

    None where what was noted does not account for the files, or they lie in a store.
    """
    relation = relation_of(opened, table)
    if not isinstance(relation, ParquetFiles):
        yield None
        return
    split = Split.of(file_stamps(opened), noted)
    early = {file.name for file in split.read if until_ms is None or (file.first_ms or 0) <= until_ms}
    files = relation.named(early)
    with connected() as connection:
        if files is None:
            found, rows = (0, noted), arrow_schema(TABLE_BY_NAME[table]).empty_table()
            connection.register("behind", rows)
        else:
            register(connection, "files", files)
            every = connection.view("files").select(StarExpression(), PLACE.alias("place"))
            placed = _with_notes(connection, every, noted)
            found = _counted(placed, noted)
            names = (ColumnExpression(name) for name in TABLE_BY_NAME[table].column_names)
            connection.register("behind", placed.filter(_IS_NEW).select(*names))
        is_whole = split.misses_nothing(noted, noted_rows_read=found[0])
        yield Behind(connection, found[1]) if is_whole else None


def _nothing(table: str) -> TableLastRows:
    """Of a table without rows, or one that a ledger from before does not have."""
    return TableLastRows(Noted.of(0, {}), _schema(table).empty_table())


def _schema(table: str) -> pa.Schema:
    schema = arrow_schema(TABLE_BY_NAME[table])
    return pa.schema([schema.field(name) for name in columns_of(table)])


def _read_behind(table: str, files: "Relation | None", known: TableLastRows) -> tuple[TableLastRows, int]:
    """The last rows with what files hold behind those that are `known`; and how many rows there were noted already."""
    if files is None:
        return known, 0
    with connected() as connection:
        register(connection, "files", files)
        rows = connection.view("files").select(
            *map(ColumnExpression, columns_of(table)), PLACE.alias("place")
        )
        noted_rows, noted = _counted(_with_notes(connection, rows, known.noted), known.noted)
        new = rows
        if known.noted.until:
            columns = (ColumnExpression(name) for name in rows.columns)
            new = _with_notes(connection, rows, known.noted).filter(_IS_NEW).select(*columns)
            connection.register("known", known.last)
            new = new.union(connection.view("known").select(StarExpression(), PLACE.alias("place")))
        return TableLastRows(noted, _last(table, new)), noted_rows


def _with_notes(
    connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation, noted: Noted
) -> duckdb.DuckDBPyRelation:
    """Rows with the place up to which those of their writer were noted; null: none was."""
    until = noted.until
    places = {"noted_writer": list(until), "noted_place": [at.place for at in until.values()]}
    connection.register("until", pa.table(places, schema=_UNTIL))
    return rows.join(connection.view("until"), "writer = noted_writer", how="left")


_IS_NEW: Expression = ColumnExpression("noted_place").isnull() | (
    ColumnExpression("place") > ColumnExpression("noted_place")
)


def _counted(read: duckdb.DuckDBPyRelation, noted: Noted) -> tuple[int, Noted]:
    """How many rows were noted already, and up to where all reach."""
    per_writer = read.aggregate(
        [
            ColumnExpression("writer"),
            FunctionExpression("count").alias("rows"),
            FunctionExpression("sum", _IS_NEW.cast(duckdb.sqltype("bigint"))).alias("new_rows"),
            FunctionExpression("max", ColumnExpression("place")).alias("last_place"),
            FunctionExpression("max", ColumnExpression("recorded_at_ms")).alias("latest_ms"),
        ]
    ).fetchall()
    until = dict(noted.until)
    noted_rows = new_rows = 0
    for writer, rows, new, place, latest_ms in per_writer:
        noted_rows, new_rows = noted_rows + rows - int(new), new_rows + int(new)
        at = LastPlace.of_place(place, latest_ms)
        until[writer] = at.further(until.get(writer, at))
    return noted_rows, Noted.of(noted.rows + new_rows, until)


def _last(table: str, rows: duckdb.DuckDBPyRelation) -> pa.Table:
    """Of each combination of the grain the rows of the last append."""
    grain = GRAINS[table].of_each
    newest = rows.aggregate(
        [
            *map(ColumnExpression, grain),
            FunctionExpression("max", ColumnExpression("place")).alias("place"),
        ]
    )
    # Without columns that may be null: so rows of that append which differ in these alone stay as well.
    nullable = {column.name for column in TABLE_BY_NAME[table].columns if column.nullable}
    joined_by = [*(name for name in grain if name not in nullable), "place"]
    last = rows.join(newest.set_alias("newest"), ", ".join(joined_by), how="semi")
    return last.select(*map(ColumnExpression, columns_of(table))).to_arrow_table().cast(_schema(table))


def recorded_last_rows(path: str, table: str) -> TableLastRows | None:
    """What was noted last of a table; None where nothing was, or nothing that this program can use."""
    contents = _newest_contents(path, [table])
    return _usable(opened_at(table_uri(path, table)), table, contents) if contents else None


def _usable(opened: DeltaTable, table: str, contents: Mapping[str, str]) -> TableLastRows | None:
    if table not in contents:
        return None
    try:
        note = LAST_ROWS[table].of_row({"operation_id": None, "content": contents[table]})
        return _last_rows_of(opened, table, note)
    except (InvalidValueError, ValueError, TypeError, AttributeError, zlib.error, pa.ArrowException) as error:
        log.debug("%s: what was noted last cannot be used, all of it is read: %s", table, error)
        return None


def _last_rows_of(opened: DeltaTable, table: str, note: LastRows) -> TableLastRows | None:
    """None: it is of another table, or of a program that notes other rows or columns."""
    columns = note.columns
    is_as_here = (list(note.of_each), sorted(columns)) == (
        list(GRAINS[table].of_each),
        sorted(columns_of(table)),
    )
    if not is_as_here or note.table_id != table_id(opened):
        return None
    return TableLastRows(note.noted, pa.Table.from_pydict(columns, _schema(table)))


def _newest_contents(path: str, tables: Sequence[str]) -> dict[str, str]:
    """By table what was noted last; only of these rows the content is read."""
    of_kind = {str(LAST_ROWS[table].kind): table for table in tables}
    with connected() as connection:
        register(
            connection,
            OPERATIONS.name,
            relation_of(newest_version(path, OPERATIONS.name), OPERATIONS.name),
        )
        newest = connection.execute(
            "select kind, max(round) from operations "
            "where kind in (select unnest(?)) and writer = ? and writer_epoch = 0 group by kind",
            [list(of_kind), OPERATOR_WRITER],
        ).fetchall()
        found = (
            newest
            and connection.execute(
                "select kind, round, content from operations "
                "where round in (select unnest(?)) and writer = ? and writer_epoch = 0",
                [[number for _, number in newest], OPERATOR_WRITER],
            ).fetchall()
        )
    return {of_kind[kind]: content for kind, number, content in found if (kind, number) in newest}


def content_of(opened: DeltaTable, table: str, found: TableLastRows, *, now_ms: int) -> LastRows:
    """What is noted of a table that was read at a time."""
    noted = Noted.of(found.noted.rows, found.noted.until, now_ms=now_ms)
    return LAST_ROWS[table].of(table_id(opened), GRAINS[table].of_each, noted, found.last.to_pydict())
