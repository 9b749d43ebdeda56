"""Arrow schemas of the ledger's tables, derived from the type words of `ledger.schema`."""

from collections.abc import Mapping, Sequence
from functools import cache

import pyarrow as pa

from ledger.domain.tables.columns import Column, Table
from ledger.errors import InvalidValueError

_SCALARS = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
}


def arrow_type(type_: str) -> pa.DataType:
    """The Arrow type of a Spark SQL type name: a scalar, `array<...>` or `struct<name:type,...>`."""
    if type_ in _SCALARS:
        return _SCALARS[type_]
    if type_.startswith("array<") and type_.endswith(">"):
        return pa.list_(pa.field("element", arrow_type(type_[len("array<") : -1])))
    if type_.startswith("struct<") and type_.endswith(">"):
        return pa.struct([_member(text) for text in _split(type_[len("struct<") : -1])])
    raise InvalidValueError(f"no Arrow type for {type_!r}; known: {', '.join(_SCALARS)}, array<>, struct<>")


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table, columns in the order of `ledger.schema`."""
    return pa.schema([_field(column) for column in table.columns])


def _field(column: Column) -> pa.Field:
    return pa.field(column.name, arrow_type(column.type), nullable=column.nullable)


def _member(text: str) -> pa.Field:
    name, _, type_ = text.partition(":")
    return pa.field(name, arrow_type(type_))


def _split(text: str) -> list[str]:
    """Split at the commas that are outside of angle brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def arrow_rows(table: Table, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Rows that name every column of a table, as Arrow has them.

    Raises `InvalidValueError` for a row that names others: Arrow would leave out what it does not know, and take
    for null what is missing.
    """
    names = set(table.column_names)
    for row in rows:
        if wrong := sorted(names ^ row.keys()):
            raise InvalidValueError(
                f"a row of {table.name} must name its columns; {', '.join(wrong)} missing or unknown; "
                "nothing was appended"
            )
    return pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema(table))
