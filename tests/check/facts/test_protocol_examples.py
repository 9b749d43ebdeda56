"""The example rows of `PROTOCOL.md` fit the schema, and tell one story that the queries agree with."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ledger
from ledger.facts.syncs import topic_id_bytes
from ledger.facts.tables import TABLES, Table
from ledger.store import catalog
from ledger.store.delta_tables import arrow_schema
from ledger.store.sql import Relation, run_query
from tests.support import operation_contents
from tests.support.documents import json_examples, section

Row = Mapping[str, Any]

PROTOCOL = (Path(ledger.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")
EXAMPLES: Mapping[str, list[Row]] = {
    table.name: json_examples(section(PROTOCOL, f"`{table.name}`"))[0] for table in TABLES
}
(CONTENTS,) = json_examples(section(PROTOCOL, "Operations"))
OF_TYPE = {"string": str, "boolean": bool, "double": float, "int": int, "bigint": int}
BITS = {"int": 31, "bigint": 63}
FLOW = "east-to-west"

every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


class Story:
    """The examples as a ledger."""

    def relation(self, table: str) -> Relation:
        known = next(one for one in TABLES if one.name == table)
        return pa.Table.from_pylist([dict(row) for row in EXAMPLES[table]], schema=arrow_schema(known))


def fits(value: object, type_: str) -> bool:
    """Whether a value of JSON is one of a type of the schema."""
    if type_.startswith("array<struct<"):
        members = dict(re.findall(r"(\w+):(\w+)", type_))
        return isinstance(value, list) and all(
            list(one) == list(members) and all(fits(one[name], members[name]) for name in members)
            for one in value
        )
    return type(value) is OF_TYPE[type_] and (type_ not in BITS or abs(int(str(value))) >> BITS[type_] == 0)


@every_table
def test_an_example_names_every_column_in_order(table: Table) -> None:
    assert EXAMPLES[table.name]
    assert [tuple(row) for row in EXAMPLES[table.name]] == [table.column_names for _ in EXAMPLES[table.name]]


@every_table
def test_values_of_an_example_are_of_the_types_of_their_columns(table: Table) -> None:
    wrong = [
        (column.name, row[column.name])
        for row in EXAMPLES[table.name]
        for column in table.columns
        if not (column.nullable if row[column.name] is None else fits(row[column.name], column.type))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("5", "bigint"),
        (True, "int"),
        (1 << 31, "int"),
        (1 << 63, "bigint"),
        (1, "boolean"),
        (5, "string"),
        (5, "double"),
        ([{"source_start": 1}], "array<struct<source_start:bigint,source_end:bigint>>"),
        ([{"source_start": "1"}], "array<struct<source_start:bigint>>"),
    ],
)
def test_a_value_of_another_type_is_noticed(value: object, type_: str) -> None:
    assert not fits(value, type_)


def test_ids_are_those_of_one_source_and_one_target_topic() -> None:
    ids = {
        value
        for rows in EXAMPLES.values()
        for row in rows
        for key, value in row.items()
        if key.endswith("topic_id")
    }
    assert ids == {operation_contents.SOURCE_ID, operation_contents.TARGET_ID}
    assert all(len(topic_id_bytes(one)) == 16 for one in ids)


def test_contents_are_those_of_the_examples_of_operations() -> None:
    assert [json.loads(row["content"]) for row in EXAMPLES["operations"]] == [
        CONTENTS[row["kind"]] for row in EXAMPLES["operations"]
    ]
    asked = EXAMPLES["operations"][0]
    assert (asked["kind"], asked["operation_id"]) == (
        CONTENTS["receipt"]["request_kind"],
        CONTENTS["receipt"]["request"],
    )


_OF_ALL_ROWS = "audit_l8_nothing_missing"
"""The story tells a few rows of many."""


@pytest.mark.parametrize(
    "audit",
    sorted(one.name for one in catalog.queries().values() if one.is_audit and one.name != _OF_ALL_ROWS),
)
def test_no_audit_objects_to_the_story(audit: str) -> None:
    assert run_query(catalog.query(audit), {}, Story()).to_pylist() == []


def test_the_commit_translates_as_the_story_says() -> None:
    (answer,) = run_query(
        catalog.query("offset_translation"), {"flow": FLOW, "driver_lives": False}, Story()
    ).to_pylist()
    assert (answer["committed_offset"], answer["target_offset"], answer["status"]) == (1400, 1380, "exact")
    assert "`billing` at offset 1,400. That commit translates to 1,380." in " ".join(PROTOCOL.split())
    (commit,) = CONTENTS["offsets_set"]["commits"]
    assert (commit["source_offset"], commit["to"], commit["status"]) == (1400, 1380, "exact")
