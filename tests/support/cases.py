"""Cases as pictures: small tables in text, and the answer that a query must give.

A file holds cases that each start with `=== what it shows`. A case is blocks apart by blank lines: the
name of a table, its columns, its rows. `-` is null; `[3,5,control;7,8,aborted]` are the gaps of an offset
sync, `[topics,1,5]` says where a claim shut the table `topics`; `#` starts a comment. A column that a block
leaves out is null where it may be, else empty or 0; a table that a case
leaves out is empty. The block `expect` is the answer, in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from ledger.facts.tables import GAPS_TYPE, SHUT_OUT_TYPE, TABLE_BY_NAME, TABLES, Column
from ledger.store.catalog import Query, Value
from ledger.store.delta_tables import arrow_schema, arrow_type
from ledger.store.sql import Relation
from tests.support.checkout import CHECKOUT
from tests.support.ledger_rows import empty

FOLDER = CHECKOUT / "tests" / "cases"
Row = dict[str, str]
_ENTRIES: Mapping[str, Mapping[str, str]] = {
    GAPS_TYPE: {"source_start": "bigint", "source_end": "bigint", "cause": "string"},
    SHUT_OUT_TYPE: {"fact_table": "string", "writer_epoch": "bigint", "round": "bigint"},
}
"""By type of an array, the members of its entries."""


@dataclass(frozen=True, eq=False)
class Case:
    """Tables and parameters, and the answer expected of a query. A case is equal to itself alone."""

    query: str
    title: str
    blocks: Mapping[str, list[Row]]

    def relation(self, table: str) -> Relation:
        columns = TABLE_BY_NAME[table].columns
        rows = [_typed(row, columns) for row in self.blocks.get(table, [])]
        fields = [field.with_nullable(True) for field in arrow_schema(TABLE_BY_NAME[table])]
        return pa.Table.from_pylist(rows, schema=pa.schema(fields))

    def params(self, query: Query) -> Mapping[str, Value]:
        given = self.blocks.get("params", [{}])[0]
        return {
            parameter.name: _value(given[parameter.name], parameter.type)
            for parameter in query.params
            if parameter.name in given or not parameter.is_optional
        }

    def expected(self, query: Query) -> pa.Table:
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in query.columns])
        types = {column.name: column.type for column in query.columns}
        rows = [
            {name: _cell(text, types[name]) for name, text in row.items()} for row in self.blocks["expect"]
        ]
        return pa.Table.from_pylist(rows, schema=schema)


def cases_of(query: str) -> list[Case]:
    """The cases of a query's file."""
    text = (FOLDER / f"{query}.cases.txt").read_text(encoding="utf-8")
    parts = ("\n" + text).split("\n=== ")[1:]
    return [_case(query, *part.split("\n", 1)) for part in parts]


def has_cases(query: str) -> bool:
    return (FOLDER / f"{query}.cases.txt").is_file()


def _case(query: str, title: str, body: str) -> Case:
    blocks: dict[str, list[Row]] = {}
    lines = [line.split("#")[0].split() for line in body.splitlines() if not line.startswith("#")]
    for block in _blocks(lines):
        name, columns, rows = block[0][0], block[1], block[2:]
        known = (
            {column.name for column in TABLE_BY_NAME[name].columns} if name in TABLE_BY_NAME else set(columns)
        )
        assert name in {"params", "expect", *(table.name for table in TABLES)}, f"{query}: {name}?"
        assert set(columns) <= known, f"{query}: {title}: {name} has no {set(columns) - known}"
        blocks[name] = [dict(zip(columns, row, strict=True)) for row in rows]
    return Case(query, title, blocks)


def _blocks(lines: list[list[str]]) -> list[list[list[str]]]:
    blocks: list[list[list[str]]] = [[]]
    for line in lines:
        if line:
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def _typed(row: Row, columns: tuple[Column, ...]) -> dict[str, object]:
    return {
        column.name: _cell(row[column.name], column.type) if column.name in row else empty(column)
        for column in columns
    }


def _cell(text: str, type_: str) -> object:
    if type_ == "double" and text != "-":
        return float(text)
    if type_ in _ENTRIES and text != "-":
        return [_entry(entry, _ENTRIES[type_]) for entry in text.strip("[]").split(";") if entry]
    return _value(text, type_)


def _value(text: str, type_: str) -> Value:
    if text == "-":
        return None
    if type_ in ("bigint", "int"):
        return int(text)
    return text == "true" if type_ == "boolean" else text


def _entry(text: str, types: Mapping[str, str]) -> dict[str, object]:
    values = zip(text.split(","), types.items(), strict=True)
    return {name: _value(value, type_) for value, (name, type_) in values}
