"""Rows of the ledger by hand, and their appends to Delta without a JVM."""

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from ledger.facts.tables import GAPS_TYPE, TABLE_BY_NAME, Column, Row
from ledger.store.delta_tables import RECORDED_AT, arrow_schema, table_uri

_EMPTY: Mapping[str, object] = {
    "string": "",
    "bigint": 0,
    "int": 0,
    "double": 0.0,
    "boolean": False,
    GAPS_TYPE: [],
}


def empty(column: Column) -> object:
    """Null where it may be, else empty or 0."""
    return None if column.nullable else _EMPTY[column.type]


def row(table: str, **values: object) -> dict[str, object]:
    """A whole row of a table; what is not given is empty."""
    return {**{column.name: empty(column) for column in TABLE_BY_NAME[table].columns}, **values}


def append(path: str, table: str, rows: Sequence[Row]) -> None:
    """One commit, as Spark makes it: it says when the first of its rows was recorded."""
    data = pa.Table.from_pylist(list(rows), schema=arrow_schema(TABLE_BY_NAME[table]))
    metadata = {"userMetadata": json.dumps({RECORDED_AT: rows[0][RECORDED_AT]})}
    properties = CommitProperties(custom_metadata=metadata)
    write_deltalake(table_uri(path, table), data, mode="append", commit_properties=properties)
