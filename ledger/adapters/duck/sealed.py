"""A DuckDB connection for people: the tables and views of a ledger at one cut, and nothing else.

No statement reaches a file or the network, for the connection has no access to either and no setting can be changed
any more. Tables come as Arrow datasets, whose files Python reads: so the ledger can be read by any statement and
changed by none. What a statement creates is in memory, as long as the connection.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ledger import catalog
from ledger.adapters.arrow_schema import arrow_schema
from ledger.adapters.delta.damage import reported_of_files
from ledger.adapters.duck.engine import (
    FUNCTIONS,
    CutRows,
    ParquetFiles,
    Relation,
    Snapshot,
    folder_of,
    register_params,
)
from ledger.adapters.duck.views import make_views
from ledger.catalog import Named, Value
from ledger.domain.words.unicode_text import is_unicode
from ledger.errors import UsageError
from ledger.schema import TABLE_BY_NAME, TABLES

if TYPE_CHECKING:
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

    Views are made when a text first names them: to make all takes longer than most answers. Those of answers between
    clusters are tables, computed when a text first names one (`catalog.BETWEEN_SUBJECTS`).
    """

    connection: duckdb.DuckDBPyConnection
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
            raise UsageError(str(error).strip()) from error
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
        if not words.isdisjoint(catalog.names_between_clusters()):
            self._compute_between_clusters()

    def _make(self, names: Iterable[str]) -> bool:
        """Make these views, and those that they read; returns whether any was not there yet."""
        missing = {name: text for name, text in catalog.views_of(names).items() if name not in self._made}
        for name, statement in missing.items():
            self.connection.execute(statement)
            self._made.add(name)
        return bool(missing)

    def _compute_between_clusters(self) -> None:
        names = catalog.names_between_clusters()
        if self._made.isdisjoint(names):
            needed = catalog.views_of(names)
            self._make(needed.keys() - names)
            make_views(self.connection, {name: needed[name] for name in names})
            self._made.update(names)

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
    folders = frozenset(filter(None, map(folder_of, relations.values())))
    with reported_of_files(folders):
        for name, relation in relations.items():
            connection.register(name, _scanned(name, relation))
    connection.execute(FUNCTIONS)
    register_params(connection, names, values)
    for statement in _SEAL:
        connection.execute(statement)
    return SealedLedger(connection, folders)


def _scanned(table: str, relation: Relation) -> "pa.Table | pyarrow.dataset.Dataset":
    """Read by Arrow: of columns that a file lacks the rows are null."""
    import pyarrow.dataset  # every command would wait for it

    if isinstance(relation, CutRows):
        return _scanned(table, relation.rows).filter(_counts(relation))
    if isinstance(relation, ParquetFiles):
        return pyarrow.dataset.dataset(list(relation.paths), schema=arrow_schema(TABLE_BY_NAME[table]))
    return relation


def _counts(cut: CutRows) -> pc.Expression:
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
