"""The ledger on Delta, read without a JVM: which rows an answer comes from.

Rows at a cut are those of the newest version of each table that the cut counts. So no version has to be kept:
merging files, removing old ones and shortening the Delta log change no answer.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from duckdb import ColumnExpression, ConstantExpression, Expression, FunctionExpression

from ledger.errors import InvalidValueError, UsageError
from ledger.facts.cuts import ClockStep, Cut, LastAppend, is_token
from ledger.facts.operations import recorded_cut
from ledger.facts.state import Comparison, Filter
from ledger.facts.tables import (
    ADDED_COLUMNS,
    ROUNDS_PER_EPOCH,
    TABLE_BY_NAME,
    TABLES,
    epoch_and_round,
    in_order,
    place_of,
)
from ledger.store.damage import reported
from ledger.store.delta_tables import arrow_schema, missing_columns, open_table, table_uri
from ledger.store.sql import CutRows, ParquetFiles, Relation, connected, register

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
    with _readable(relation) as connection:
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


# Snapshots ----------------------------------------------------------------------------------------


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIGITS = re.compile(r"[0-9]{1,18}")
_GLOB = re.compile(r"[*?\[\]]")
_CLOCKS_APART_MS = 10_000
"""Clocks of a reader and of writers may differ so much before a time counts as one to come."""
_IDENTIFIED_BY = "writers"


@dataclass(frozen=True)
class OpenedTables:
    """Tables of a ledger, each at its newest version when it was opened: once, all of them together.

    None is a table that the ledger is too old to have. `of` raises unless this program can read what it opens.
    """

    path: str
    _by_name: dict[str, DeltaTable | None]
    _relations: dict[str, "pa.Table | ParquetFiles"] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, names: Collection[str] = TABLE_BY_NAME) -> "OpenedTables":
        """Those of these names; another one is opened when somebody asks for it."""
        return cls(path, {table: open_table(path, table) for table in TABLE_BY_NAME if table in names})

    def table(self, name: str) -> DeltaTable | None:
        if name not in self._by_name:
            self._by_name[name] = open_table(self.path, name)
        return self._by_name[name]

    def relation(self, table: str) -> "pa.Table | ParquetFiles":
        if table not in self._relations:
            uri = table_uri(self.path, table)
            with reported(f"{uri} cannot be read", uri):
                self._relations[table] = relation_of(self.table(table), table)
        return self._relations[table]

    @cached_property
    def cut(self) -> Cut:
        """All that the tables had when they were opened: of every table and writer the last append."""
        found = (last_appends(table.name, self.relation(table.name)) for table in TABLES)
        return Cut.of(self.ledger_id, (append for appends in found for append in appends))

    @property
    def ledger_id(self) -> str:
        """What tells one ledger from another, and is the same for its copies: the id of the table `writers`."""
        return str(self._identifying.metadata().id)

    @property
    def created_at_ms(self) -> int:
        """When it was created, by the clock of who did."""
        return int(self._identifying.metadata().created_time)

    @cached_property
    def recorded_spans(self) -> list[tuple[int, int]]:
        """Of each table that has rows, when the first and the last of them was recorded."""
        found = (recorded_from_to_ms(self.relation(table.name)) for table in TABLES)
        return [span for span in found if span is not None]

    @property
    def began_at_ms(self) -> int:
        """Before that it answers nothing: it had neither been created, nor had it a row of an older ledger."""
        return min([self.created_at_ms, *(first_ms for first_ms, _ in self.recorded_spans)])

    @property
    def _identifying(self) -> DeltaTable:
        found = self.table(_IDENTIFIED_BY)
        assert found is not None, "no ledger is older than this table"
        return found


class DeltaSnapshot:
    """The tables of a ledger at one cut: all rows that the opened tables have, or those that a cut counts.

    `until_ms`: per table that the cut names when the latest of its rows was recorded.
    """

    def __init__(
        self,
        opened: OpenedTables,
        counted: Cut | None = None,
        until_ms: Mapping[str, int] = MappingProxyType({}),
        instead: Mapping[str, pa.Table] = MappingProxyType({}),
    ) -> None:
        self._opened = opened
        self._counted = counted
        self._until_ms = until_ms
        self._instead = instead

    @property
    def path(self) -> str:
        return self._opened.path

    @property
    def began_at_ms(self) -> int:
        """When the ledger begins, whatever the cut."""
        return self._opened.began_at_ms

    @property
    def cut(self) -> Cut:
        """What the rows come to: of every table and writer the last append."""
        return self._opened.cut if self._counted is None else self._counted

    def extended_by(self, table: str, rows: pa.Table) -> "DeltaSnapshot":
        """The same cut, with rows of a table that say the same of it in another way."""
        return DeltaSnapshot(self._opened, self._counted, self._until_ms, {**self._instead, table: rows})

    def relation(self, table: str) -> Relation:
        if table in self._instead:
            return self._instead[table]
        rows = self._opened.relation(table)
        if self._counted is None:
            return rows
        if last := self._counted.of_table(table):
            return CutRows(rows, last, self._until_ms[table])
        return arrow_schema(TABLE_BY_NAME[table]).empty_table()

    def is_missing(self, table: str) -> bool:
        """Whether the ledger is from before the table was added."""
        return self._opened.table(table) is None

    def lacking(self, table: str) -> frozenset[str]:
        """Columns that the table has not gained yet."""
        found = self._opened.table(table)
        missing = TABLE_BY_NAME[table].columns if found is None else missing_columns(found, table)
        return frozenset(column.name for column in missing)

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        """The rows of a table that pass all filters, each writer's in the order of recording."""
        found = filtered_rows(self.relation(table), filters)
        return in_order(found)

    def last_recorded_in(self, table: str, writer: str) -> int | None:
        """When the writer appended last to the table; None: never."""
        return last_recorded_at_ms(self.relation(table), writer)

    def last_recorded_at_ms(self, writer: str | None = None) -> int:
        """When the last row of the cut, or of a writer in it, was recorded; 0 when there is none."""
        found = (last_recorded_at_ms(self.relation(table.name), writer) for table in TABLES)
        return max(filter(None, found), default=0)


@dataclass(frozen=True, slots=True)
class DeltaLedger:
    """A path at which a ledger is expected whenever it is read; each method raises where there is none."""

    path: str

    def now(self, tables: Collection[str] = TABLE_BY_NAME) -> DeltaSnapshot:
        """All that is recorded by now; who needs some of the tables only names them, and no other is opened."""
        return DeltaSnapshot(OpenedTables.of(self.path, tables))

    def at(self, cut: Cut) -> DeltaSnapshot:
        """The tables at a cut, after a check that it is one of this ledger and of this history of it."""
        opened = OpenedTables.of(self.path)
        return DeltaSnapshot(opened, cut, _checked(opened, cut))

    def as_of(self, as_of: str | None, *, now_ms: int) -> DeltaSnapshot:
        """The tables at what `--as-of` names: none (now), a cut token, a time, or an operation id."""
        if as_of is None:
            return self.now()
        if is_token(as_of):
            return self.at(_parse_token(as_of))
        at_ms = parse_time(as_of)
        return self._at_operation(as_of, now_ms) if at_ms is None else self.at_time(at_ms, now_ms=now_ms)

    def at_time(self, at_ms: int, *, now_ms: int) -> DeltaSnapshot:
        """The tables as they were at a time, in milliseconds since the epoch: per table and writer the appends up to
        the last one such that it and all before it were recorded by then.

        Refused is a time that neither this machine's clock nor the ledger has come to: what will be recorded until
        then would change the answer.
        """
        opened = OpenedTables.of(self.path)
        spans = opened.recorded_spans
        if at_ms > max([now_ms + _CLOCKS_APART_MS, *(last_ms for _, last_ms in spans)]):
            raise UsageError(
                f"--as-of {_iso(at_ms)} has not come yet: it is {_iso(now_ms)} by the clock of this machine; "
                "nothing was read"
            )
        if at_ms < (began_ms := opened.began_at_ms):
            raise UsageError(
                f"the ledger begins at {_iso(began_ms)}, asked for {_iso(at_ms)}; nothing was read"
            )
        last = {
            table.name: last_appends(table.name, opened.relation(table.name), until_ms=at_ms)
            for table in TABLES
        }
        cut = Cut.of(opened.ledger_id, (append for appends in last.values() for append in appends))
        return DeltaSnapshot(opened, cut, dict.fromkeys(last, at_ms))

    def _at_operation(self, operation_id: str, now_ms: int) -> DeltaSnapshot:
        rows = self.now().rows("operations", [("operation_id", "=", operation_id)])
        if not rows:
            raise UsageError(
                f"{operation_id!r} is no cut token, no time (ISO-8601 with an offset, or milliseconds since "
                "the epoch) and no operation of this ledger; nothing was read"
            )
        token = recorded_cut(rows)
        if token is not None:
            return self.at(_parse_token(token))
        return self.at_time(min(int(row["recorded_at_ms"]) for row in rows), now_ms=now_ms)


def open_ledger(path: str) -> DeltaLedger:
    """The ledger at `path`, after a check that it is one that this program can read and write."""
    OpenedTables.of(path)
    return DeltaLedger(path)


def _checked(opened: OpenedTables, cut: Cut) -> dict[str, int]:
    """Per table that the cut names when the latest of its rows was recorded.

    Raises `UsageError` when the ledger does not hold the appends that the cut names.
    """
    if cut.ledger_id != opened.ledger_id:
        raise UsageError(
            f"the cut is of another ledger ({cut.ledger_id}; this one is {opened.ledger_id}); nothing was read"
        )
    if strange := sorted({append.table for append in cut.last} - TABLE_BY_NAME.keys()):
        raise UsageError(
            f"the cut names {', '.join(strange)}, which this program does not know; nothing was read. Use a later one"
        )
    until_ms = {}
    for table in sorted({append.table for append in cut.last}):
        last = cut.of_table(table)
        named = named_appends(opened.relation(table), last)
        for append, (found_at_ms, _) in zip(last, named, strict=True):
            _check_append(append, found_at_ms)
        until_ms[table] = max(at_ms or 0 for _, at_ms in named)
    return until_ms


def _check_append(append: LastAppend, found_at_ms: int | None) -> None:
    named = f"round {append.round} of {append.writer}, epoch {append.epoch}, in {append.table}"
    if found_at_ms is None:
        raise UsageError(
            f"the cut names {named}, which this ledger does not hold: it was brought back to a time before; "
            "nothing was read"
        )
    if found_at_ms != append.recorded_at_ms:
        raise UsageError(
            f"the cut names {named}, recorded at {_iso(append.recorded_at_ms)}; here that was recorded at "
            f"{_iso(found_at_ms)}: the ledger was brought back to a time before and went another way since; "
            "nothing was read"
        )


def parse_time(text: str) -> int | None:
    """Milliseconds since the epoch of a time as people write it; None when it is not meant as a time."""
    if _DIGITS.fullmatch(text):
        return int(text)
    if not _DATE.match(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        example = f"{moment.isoformat()}Z"
        raise UsageError(f"a time needs an offset or Z (as in {example}), got {text!r}; nothing was read")
    return round(moment.timestamp() * 1000)


def _parse_token(token: str) -> Cut:
    try:
        return Cut.parse(token)
    except InvalidValueError as error:
        raise UsageError(f"{error}; nothing was read") from error


def relation_of(table: DeltaTable | None, name: str) -> "pa.Table | ParquetFiles":
    """The rows of a table of the ledger, as DuckDB reads them; None: the ledger does not have it yet."""
    if table is None:
        return arrow_schema(TABLE_BY_NAME[name]).empty_table()
    uris = [unquote(uri.removeprefix("file://")) for uri in _largest_first(table)]
    if not uris:
        return arrow_schema(TABLE_BY_NAME[name]).empty_table()
    if all(Path(uri).is_absolute() and not _GLOB.search(uri) for uri in uris):
        added = {
            column.name: column.type
            for column in TABLE_BY_NAME[name].columns
            if column.name in ADDED_COLUMNS.get(name, ())
        }
        return ParquetFiles(tuple(uris), TABLE_BY_NAME[name].column_names, added)
    return _with_columns(table, name)


def _largest_first(table: DeltaTable) -> list[str]:
    """The files of a table: by the first of several DuckDB takes how many rows the others have, and plans joins."""
    actions = table.get_add_actions()
    sizes = dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))
    return sorted(table.file_uris(), key=lambda uri: sizes.get(uri.rpartition("/")[2], 0), reverse=True)


def _with_columns(table: DeltaTable, name: str) -> pa.Table:
    """The rows through deltalake: for stores and paths that DuckDB would not read as they are written."""
    schema = arrow_schema(TABLE_BY_NAME[name])
    lacking = [column.name for column in missing_columns(table, name)]
    found = table.to_pyarrow_table(columns=[column for column in schema.names if column not in lacking])
    for column in lacking:
        found = found.append_column(schema.field(column), pa.nulls(len(found), schema.field(column).type))
    return found.select(schema.names)


def _iso(at_ms: int) -> str:
    """ISO-8601; a number that is no date within the calendar stays one."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return f"{at_ms} ms since the epoch"
