"""A DuckDB connection for people: the tables and views of a ledger at one cut, and nothing else.

No statement reaches a file or the network, for the connection has no access to either and no setting can be changed
any more. Tables come as Arrow datasets, whose files Python reads: so the ledger can be read by any statement and
changed by none. What a statement creates is in memory, as long as the connection.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ledger import catalog
from ledger.adapters.arrow_schema import arrow_schema
from ledger.adapters.duck.engine import FUNCTIONS, CutRows, ParquetFiles, Relation, Snapshot, register_params
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
_INTERRUPTED = "Query interrupted"  # what duckdb makes of a signal while it computes
_SEAL = (
    "set python_enable_replacements = false",
    "set enable_external_access = false",
    "set lock_configuration = true",
)


@dataclass(frozen=True, slots=True)
class SealedLedger:
    """Made by `sealed`; `connection` can read, compute, and create in memory."""

    connection: duckdb.DuckDBPyConnection

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
            for statement in self.connection.extract_statements(text):
                answer = self.connection.sql(statement.query)
                is_data = statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]
                yield answer.to_arrow_table() if is_data and answer is not None else None
        except duckdb.Error as error:
            raise UsageError(str(error).strip()) from error
        except RuntimeError as error:
            if str(error) != _INTERRUPTED:
                raise
            raise KeyboardInterrupt from error

    def names(self) -> pa.Table:
        """Tables and views that can be read, with what kind each is."""
        rows = [{"name": table.name, "kind": "table"} for table in TABLES]
        rows += [{"name": name, "kind": "view"} for name in catalog.view_names()]
        return pa.Table.from_pylist(rows)


def sealed(snapshot: Snapshot, names: tuple[Named, ...], values: Mapping[str, Value]) -> SealedLedger:
    """The ledger at a cut, with the one-row relation `params` where there are names."""
    connection = duckdb.connect(":memory:", config=_NO_EXTENSIONS)
    for table in TABLES:
        connection.register(table.name, _scanned(table.name, snapshot.relation(table.name)))
    connection.execute(FUNCTIONS)
    connection.execute(catalog.VIEWS)
    register_params(connection, names, values)
    for statement in _SEAL:
        connection.execute(statement)
    return SealedLedger(connection)


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
