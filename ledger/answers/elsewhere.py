"""A DuckDB connection for people: the tables and views of a ledger at one cut, and nothing else.

No statement reaches a file or the network, for the connection has no access to either and no setting can be changed
any more. Tables come as Arrow datasets, whose files Python reads: so the ledger can be read by any statement and
changed by none. What a statement creates is in memory, as long as the connection.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib.resources import files
from operator import or_
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from ledger.answers.printed import in_duckdb, macro, quoted, spark_uri, steps_in_duckdb, tables_of
from ledger.errors import UsageError
from ledger.facts.cuts import LastAppend
from ledger.facts.tables import ROUNDS_PER_EPOCH, TABLE_BY_NAME, TABLES, Table, place_of
from ledger.store import catalog
from ledger.store.catalog import Named, Query, Value
from ledger.store.damage import local_folder, reported_of_files
from ledger.store.delta_tables import arrow_schema
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.sql import (
    FUNCTIONS,
    CutRows,
    ParquetFiles,
    Relation,
    Snapshot,
    connect,
    folder_of,
    register_params,
    show,
)
from ledger.words import is_unicode, shown

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.dataset

_NO_EXTENSIONS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_WORD = re.compile(r"\w+")
_LISTING = ("show", "describe", "information_schema", "duckdb_", "pg_", "pragma", "sqlite_")
"""How words begin of statements that tell which views there are."""
_INTERRUPTED = "Query interrupted"  # what duckdb makes of a signal while it computes
_SEAL = (
    "set python_enable_replacements = false",
    "set enable_external_access = false",
    "set lock_configuration = true",
)


@dataclass(frozen=True, slots=True)
class SealedLedger:
    """Made by `sealed`; `connection` can read, compute, and create in memory.

    Views, and queries as functions of their parameters, are made when a text first names them: to make all takes longer
    than most answers. Views of answers between clusters (`catalog.BETWEEN_SUBJECTS`) are computed then, on a connection
    that reads files by itself.
    """

    connection: duckdb.DuckDBPyConnection
    snapshot: Snapshot
    folders: frozenset[str] = frozenset()
    _made: set[str] = field(default_factory=set, repr=False, compare=False)

    def __enter__(self) -> "SealedLedger":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def answers(self, text: str) -> Iterator[pa.Table | None]:
        """Carry out the statements of a text, one after the other: rows, or None for what has none.

        Raises `UsageError` at the first that DuckDB refuses, and `KeyboardInterrupt` when Ctrl-C ends one; those before
        it were carried out.
        """
        if not is_unicode(text):
            raise UsageError("the statements are not Unicode text; nothing was carried out")
        try:
            with reported_of_files(self.folders):
                self._make_what_is_read(text)
                for statement in self.connection.extract_statements(text):
                    answer = self._carried_out(statement.query)
                    is_data = statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]
                    yield answer.to_arrow_table() if is_data and answer is not None else None
        except duckdb.Error as error:
            raise UsageError(*str(error).strip().splitlines()) from error
        except RuntimeError as error:
            if str(error) != _INTERRUPTED:
                raise
            raise KeyboardInterrupt from error

    def _carried_out(self, statement: str) -> duckdb.DuckDBPyRelation | None:
        """What it names otherwise than by words of the text is made now, and so is what an error would propose."""
        try:
            return self.connection.sql(statement)
        except duckdb.CatalogException:
            if not self._make(catalog.view_names()):
                raise
            return self.connection.sql(statement)

    def _make_what_is_read(self, text: str) -> None:
        words = frozenset(_WORD.findall(text.lower()))
        lists_views = any(word.startswith(_LISTING) for word in words)
        self._make(catalog.view_names() if lists_views else words.intersection(catalog.view_names()))
        queries = [query for name, query in catalog.queries().items() if name in words]
        read = words.union(*(query.reads for query in queries))
        self._compute(read.intersection(catalog.names_between_clusters()))
        self._make(read.intersection(catalog.view_names()))
        for query in queries:
            self.connection.execute(macro(query))

    def _make(self, names: Iterable[str]) -> bool:
        """Make these views, and those that they read; returns whether any was not there yet."""
        missing = {name: text for name, text in catalog.views_of(names).items() if name not in self._made}
        for name, statement in missing.items():
            self.connection.execute(statement)
            self._made.add(name)
        return bool(missing)

    def _compute(self, names: Collection[str]) -> None:
        """Make tables of these views, of answers between clusters."""
        if missing := set(names) - self._made:
            with connect(self.snapshot, {}, catalog.names_between_clusters()) as computed:
                for name in missing:
                    self.connection.register(name, computed.table(name).to_arrow_table())
            self._made.update(missing)

    def names(self) -> pa.Table:
        """Tables and views that can be read, with what kind each is."""
        rows = [{"name": table.name, "kind": "table"} for table in TABLES]
        rows += [
            {"name": name, "kind": "view"}
            for name in (*catalog.view_names(), *catalog.names_between_clusters())
        ]
        return pa.Table.from_pylist(rows)


def sealed(snapshot: Snapshot, names: tuple[Named, ...], values: Mapping[str, Value]) -> SealedLedger:
    """The ledger at a cut, with the one-row relation `params` where there are names."""
    connection = duckdb.connect(":memory:", config=_NO_EXTENSIONS)
    relations = {table.name: snapshot.relation(table.name) for table in TABLES}
    folders = _folders(relations.values())
    with reported_of_files(folders):
        for name, relation in relations.items():
            connection.register(name, _scanned(name, relation))
    connection.execute(FUNCTIONS)
    register_params(connection, names, values)
    for statement in _SEAL:
        connection.execute(statement)
    return SealedLedger(connection, snapshot, folders)


def attach(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, queries: Sequence[Query]) -> None:
    """Make queries functions of somebody's connection, of the rows of a cut; what they read more than once is computed.

    Raises `UsageError` where the connection has something else of a name that is to be made.
    """
    try:
        relations = {name: snapshot.relation(name) for name in tables_of(queries)}
        with reported_of_files(_folders(relations.values())):
            for name, relation in relations.items():
                show(connection, name, relation)
            for statement in (FUNCTIONS, *steps_in_duckdb(queries)):
                connection.execute(statement)
    except duckdb.CatalogException as error:
        raise UsageError(*str(error).strip().splitlines()) from error


def _folders(relations: Iterable[Relation]) -> frozenset[str]:
    return frozenset(filter(None, map(folder_of, relations)))


def _scanned(table: str, relation: Relation) -> "pa.Table | pyarrow.dataset.Dataset":
    """Rows of a table, as Arrow reads them."""
    import pyarrow.dataset  # every command would wait for it

    if isinstance(relation, CutRows):
        return _scanned(table, relation.rows).filter(_counts(relation))
    if isinstance(relation, ParquetFiles):
        return pyarrow.dataset.dataset(list(relation.paths), schema=arrow_schema(TABLE_BY_NAME[table]))
    return relation


def _counts(cut: CutRows) -> "pc.Expression":
    import pyarrow.compute as pc  # every answer would wait for it

    """Which rows count at a cut."""
    of_writers = (
        (pc.field("writer") == append.writer)
        & (
            (pc.field("writer_epoch") < append.epoch)
            | ((pc.field("writer_epoch") == append.epoch) & (pc.field("round") <= append.round))
        )
        for append in cut.last
    )
    return reduce(or_, of_writers) & (pc.field("recorded_at_ms") <= cut.until_ms)


# Pasted views -------------------------------------------------------------------------------------
# SQL that makes a ledger readable elsewhere: its tables at a cut, the functions of the engine, and the
# views.
#
# Statements end with a semicolon at the end of a line, and no other line ends so: programs may split there.


_DUCKDB_KEEPS = "It names files: it can be read until maintenance removes one of them (VACUUM)."
_SPARK_KEEPS = (
    "It counts the rows of the cut: it reads them for ever, whatever is appended, merged or removed (VACUUM)."
)
_SPARK_KEEPS_OF_A_COPY = (
    "It names versions of a copy: it can be read until what these need is removed from the copy "
    "(keep_superseded_hours)."
)


def for_duckdb(at: DeltaSnapshot) -> str:
    """For plain DuckDB: tables are lists of Parquet files, so no extension is needed.

    Raises `UsageError` for a ledger whose files DuckDB alone cannot read by their names.
    """
    made = [_duckdb_table(at, table) for table in TABLES]
    return "\n".join([_head(at, "DuckDB", _DUCKDB_KEEPS), *made, FUNCTIONS, catalog.VIEWS])


def for_spark(at: DeltaSnapshot) -> str:
    """For a Spark session with Delta Lake, in ANSI mode."""
    functions = files(__package__).joinpath("functions.sql").read_text(encoding="utf-8")
    made = [spark_table(at, table) for table in TABLES]
    is_copy = any(at.copied_version(table.name) is not None for table in TABLES)
    keeps = _SPARK_KEEPS_OF_A_COPY if is_copy else _SPARK_KEEPS
    head = _head(at, "Spark with Delta Lake, in ANSI mode", keeps)
    return "\n".join([head, *made, functions, catalog.VIEWS])


def _head(at: DeltaSnapshot, engine: str, keeps: str) -> str:
    where = shown(at.path)
    return f"-- The ledger at {where}\n-- at the cut {at.cut.token}, for {engine}.\n-- {keeps}\n"


def _duckdb_table(at: DeltaSnapshot, table: Table) -> str:
    relation = at.relation(table.name)
    counted = f"\n{_counting(relation.last)}" if isinstance(relation, CutRows) else ""
    if isinstance(relation, CutRows):
        relation = relation.rows
    typed = ",\n    ".join(f"cast(null as {in_duckdb(c.type)}) as {c.name}" for c in table.columns)
    if isinstance(relation, ParquetFiles) and local_folder(at.path) is not None:
        listed = ",\n    ".join(quoted(path) for path in relation.paths)
        columns = ",\n    ".join(table.column_names)
        return _view(table, f"select\n    {columns}\nfrom read_parquet([\n    {listed}\n]) as found{counted}")
    if isinstance(relation, ParquetFiles) or relation.num_rows:
        raise UsageError(
            f"DuckDB alone cannot read the files of {table.name} at {at.path}: they are in a store, or have * ? [ ] in "
            "their names; nothing was printed. Use `mirror-ledger sql`, or --engine spark"
        )
    return _view(table, f"select\n    {typed}\nwhere false")


def spark_table(at: DeltaSnapshot, table: Table) -> str:
    """What makes one table of the cut readable in a Spark session: of a copy at the version that it names.

    Behind that may lie what a copying that died has left: entries of the log whose files it has not sent.
    """
    columns = ",\n    ".join(table.column_names)
    location = spark_uri(at, table.name).replace("`", "``")
    copied = at.copied_version(table.name)
    version = "" if copied is None else f" version as of {copied}"
    last = at.cut.of_table(table.name)
    counted = _counting(last) if last else "where false"
    return _view(table, f"select\n    {columns}\nfrom delta.`{location}`{version} as found\n{counted}")


def _counting(last: Sequence[LastAppend]) -> str:
    """Of the rows `found` those that a cut counts, in words of both engines."""
    bounds = ",\n    ".join(f"({quoted(one.writer)}, {place_of(one.epoch, one.round)})" for one in last)
    return (
        f"where exists (\nselect *\nfrom (values\n    {bounds}\n) as counted(writer, last_place)\n"
        "where counted.writer = found.writer\n"
        f"and counted.last_place >= found.writer_epoch * {ROUNDS_PER_EPOCH} + found.round\n)"
    )


def _view(table: Table, select: str) -> str:
    return f"create or replace temporary view {table.name} as\n{select};\n"
