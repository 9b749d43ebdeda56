"""SQL that makes a ledger readable elsewhere: its tables at a cut, the functions of the engine, and the views.

Statements end with a semicolon at the end of a line, and no other line ends so: programs may split there.
"""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import pyarrow as pa

from ledger import catalog
from ledger.adapters.arrow_schema import arrow_type
from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.adapters.delta.tables import table_uri
from ledger.adapters.duck.engine import FUNCTIONS, CutRows, ParquetFiles
from ledger.domain.tables.columns import Column, Table
from ledger.domain.tables.cuts import LastAppend
from ledger.domain.tables.places import ROUNDS_PER_EPOCH, place_of
from ledger.domain.words.unicode_text import shown
from ledger.errors import UsageError
from ledger.schema import TABLES

_NOT_IN_LITERALS = re.compile(r"[\\\x00-\x1f\x7f]")
_DUCKDB_KEEPS = "It names files: it can be read until maintenance removes one of them (VACUUM)."
_SPARK_KEEPS = (
    "It counts the rows of the cut: it reads them for ever, whatever is appended, merged or removed (VACUUM)."
)


def for_duckdb(at: DeltaSnapshot) -> str:
    """For plain DuckDB: tables are lists of Parquet files, so no extension is needed.

    Raises `UsageError` for a ledger whose files DuckDB alone cannot read by their names.
    """
    made = [_duckdb_table(at, table) for table in TABLES]
    return "\n".join([_head(at, "DuckDB", _DUCKDB_KEEPS), *made, FUNCTIONS, catalog.VIEWS])


def for_spark(at: DeltaSnapshot) -> str:
    """For a Spark session with Delta Lake, in ANSI mode."""
    functions = files("ledger.adapters.spark").joinpath("functions.sql").read_text(encoding="utf-8")
    made = [spark_table(at, table) for table in TABLES]
    head = _head(at, "Spark with Delta Lake, in ANSI mode", _SPARK_KEEPS)
    return "\n".join([head, *made, functions, catalog.VIEWS])


def _head(at: DeltaSnapshot, engine: str, keeps: str) -> str:
    where = shown(at.path)
    return f"-- The ledger at {where}\n-- at the cut {at.cut.token}, for {engine}.\n-- {keeps}\n"


def _duckdb_table(at: DeltaSnapshot, table: Table) -> str:
    """Columns that were added later are null where no file has them: an empty row set brings them along."""
    relation = at.relation(table.name)
    counted = f"\n{_counting(relation.last)}" if isinstance(relation, CutRows) else ""
    if isinstance(relation, CutRows):
        relation = relation.rows
    typed = ",\n    ".join(f"cast(null as {_duckdb_type(c)}) as {c.name}" for c in table.columns)
    if isinstance(relation, ParquetFiles):
        listed = ",\n    ".join(_quoted(path) for path in relation.paths)
        by_name = ", union_by_name = true" if relation.added else ""
        found = f"select * from read_parquet([\n    {listed}\n]{by_name})"
        columns = ",\n    ".join(table.column_names)
        both = f"select\n    {typed}\nwhere false\nunion all by name\n{found}"
        return _view(table, f"select\n    {columns}\nfrom (\n{both}\n) as found{counted}")
    if isinstance(relation, pa.Table) and relation.num_rows:
        raise UsageError(
            f"DuckDB alone cannot read the files of {table.name} at {at.path}: they are in a store, or have * ? [ ] in "
            "their names; nothing was printed. Use `mirror-ledger sql`, or --engine spark"
        )
    return _view(table, f"select\n    {typed}\nwhere false")


def spark_table(at: DeltaSnapshot, table: Table) -> str:
    """What makes one table of the cut readable in a Spark session."""
    lacking = at.lacking(table.name)
    columns = ",\n    ".join(
        f"cast(null as {c.type}) as {c.name}" if c.name in lacking else c.name for c in table.columns
    )
    if at.is_missing(table.name):
        return _view(table, f"select\n    {columns}\nwhere false")
    path = at.path if "://" in at.path else str(Path(at.path).absolute())
    location = table_uri(path, table.name).replace("`", "``")
    last = at.cut.of_table(table.name)
    counted = _counting(last) if last else "where false"
    return _view(table, f"select\n    {columns}\nfrom delta.`{location}` as found\n{counted}")


def _counting(last: Sequence[LastAppend]) -> str:
    """Of the rows `found` those that a cut counts, in words of both engines."""
    bounds = ",\n    ".join(f"({_quoted(one.writer)}, {place_of(one.epoch, one.round)})" for one in last)
    return (
        f"where exists (\nselect *\nfrom (values\n    {bounds}\n) as counted(writer, last_place)\n"
        "where counted.writer = found.writer\n"
        f"and counted.last_place >= found.writer_epoch * {ROUNDS_PER_EPOCH} + found.round\n)"
    )


def _view(table: Table, select: str) -> str:
    return f"create or replace temporary view {table.name} as\n{select};\n"


def _quoted(text: str) -> str:
    """A literal of both engines on one line; Spark takes a backslash for an escape."""
    doubled = text.replace("'", "''")
    return "'" + _NOT_IN_LITERALS.sub(lambda found: f"' || chr({ord(found[0])}) || '", doubled) + "'"


def _duckdb_type(column: Column) -> str:
    return _duckdb_name(arrow_type(column.type))


def _duckdb_name(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"{_duckdb_name(type_.value_type)}[]"
    if pa.types.is_struct(type_):
        return f"struct({', '.join(f'{field.name} {_duckdb_name(field.type)}' for field in type_)})"
    return _DUCKDB_NAMES[str(type_)]


_DUCKDB_NAMES = {
    "int64": "bigint",
    "int32": "integer",
    "string": "varchar",
    "bool": "boolean",
    "double": "double",
}
