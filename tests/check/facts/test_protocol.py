"""`PROTOCOL.md`, the schema and the classes of `facts` say the same, and so do the rows of `story.json`."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ledger
from ledger.facts.every_kind import EVERY_KIND
from ledger.facts.operations import OperationKind
from ledger.facts.syncs import CAUSES, LOST_AT_SOURCE, GapCause, SyncCause, SyncKind, topic_id_bytes
from ledger.facts.tables import LEDGER_FORMAT, STAMP, TABLES, Table
from ledger.mirror.assignment import StopCause
from ledger.store import catalog
from ledger.store.delta_tables import arrow_schema
from ledger.store.sql import Relation, run_query
from tests.support.documents import definitions, section
from tests.support.operation_contents import CONTENTS, STORY, content_of

# -- Tables and columns ----------------------------------------------------------------------------

PROTOCOL = (Path(ledger.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")


def section_of(table: Table) -> str:
    return section(PROTOCOL, f"`{table.name}`")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_a_row_is_of_is_stated(table: Table) -> None:
    assert f"One row per {table.row_per}." in section_of(table)


def test_the_stamp_comes_first_in_every_table() -> None:
    assert all(table.columns[: len(STAMP)] == STAMP for table in TABLES)


def test_no_table_is_stated_that_does_not_exist() -> None:
    assert re.findall(r"^### `(\w+)`$", PROTOCOL, re.MULTILINE) == [table.name for table in TABLES]


def test_every_cause_of_an_offset_sync_is_stated() -> None:
    kinds = section(PROTOCOL, "Kinds of offset syncs")
    stated_causes = " ".join(re.findall(r"^- Cause: ([^.]*)\.$", kinds, re.MULTILINE | re.DOTALL))
    assert set(re.findall(r"`(\w+)`", stated_causes)) == set(SyncCause)


def test_every_cause_has_its_meaning_once() -> None:
    """A gap's with what answers go by: that one is forgotten would let plans say that all was copied."""
    stated = [(one.kind, one.cause) for one in CAUSES]
    assert len(set(stated)) == len(stated)
    assert {cause for kind, cause in stated if kind == "gap"} == set(GapCause)
    assert {cause for kind, cause in stated if kind != "gap" and cause} == set(SyncCause)
    assert {kind for kind, _ in stated} == {"gap", *SyncKind}
    kinds = section(PROTOCOL, "Kinds of offset syncs")
    for kind, said in re.findall(r"^`(\w+)`: .*?^- Cause: ([^.;]*)", kinds, re.MULTILINE | re.DOTALL):
        assert set(re.findall(r"`(\w+)`", said)) <= {cause for of, cause in stated if of == kind}
    assert all(one.meaning for one in CAUSES)


def test_sql_names_no_cause_that_is_not_stated() -> None:
    """Several causes stand in one condition where a source has lost its end; other sets are columns of `causes`."""
    folder = Path(ledger.__file__).parent
    files = [*folder.rglob("*.sql"), *folder.with_name("queries").glob("*.sql")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    conditions = re.findall(r"(?:\w\.)?\bcause(?: <>| =|'?:| not in| in) \(?('[^)\n,]*'(?:, '\w+')*)", text)
    named = [frozenset(re.findall(r"'(\w+)'", one)) for one in conditions]
    of_stops = frozenset({StopCause.TARGET_RECREATED, StopCause.TARGET_TOPIC_GONE})
    assert {one for one in named if len(one) > 1} == {LOST_AT_SOURCE, of_stops}
    assert {cause for one in named for cause in one} <= {one.cause for one in CAUSES} | of_stops


def test_every_view_says_what_it_is_and_those_that_are_stated_exist() -> None:
    made = re.compile(r"^(-- [^\n]*\n)?create or replace temporary view (\w+)", re.MULTILINE)
    folder = Path(ledger.__file__).parent / "views"
    found = [one for file in folder.glob("*.sql") for one in made.findall(file.read_text(encoding="utf-8"))]
    assert [name for comment, name in found if not comment] == []
    stated = re.findall(r"`(\w+)`", section(PROTOCOL, "Views"))
    assert set(stated) <= {name for _, name in found} | {table.name for table in TABLES}


def test_the_version_is_stated() -> None:
    assert f"Format: {LEDGER_FORMAT}," in PROTOCOL


# -- Operations ------------------------------------------------------------------------------------

SECTION = section(PROTOCOL, "Kinds of operations")
STATED: dict[str, str] = {}
"""By kind its keys in words."""
for _kind, _defined in definitions(SECTION).items():
    is_above = _defined.parts["Keys"] == "as above"
    STATED[_kind] = [*STATED.values()][-1] if is_above else _defined.parts["Keys"]

every_kind = pytest.mark.parametrize("kind", OperationKind)


def keys_of(value: object) -> set[str]:
    """Of all objects in a value with a fixed set of keys; those of a mapping from names are left out."""
    if isinstance(value, list):
        return {key for one in value for key in keys_of(one)}
    return set(value) if isinstance(value, dict) else set()


def test_the_kinds_that_are_stated_are_those_that_exist() -> None:
    assert set(STATED) == set(CONTENTS) == set(OperationKind)


def test_every_kind_has_its_class() -> None:
    assert {kind: content.kind for kind, content in EVERY_KIND.items()} == {
        kind: kind for kind in OperationKind
    }


@every_kind
def test_every_key_is_stated(kind: OperationKind) -> None:
    example = CONTENTS[kind]
    keys = set(example).union(*(keys_of(value) for value in example.values() if isinstance(value, list)))
    assert keys <= set(re.findall(r"`(\w+)`", STATED[kind]))


def assert_says(read: object, stated: object) -> None:
    """What was read has in each attribute what the key of the same name states."""
    if is_dataclass(read) and isinstance(stated, dict):
        for name in [one.name for one in fields(read) if one.name in stated]:
            assert_says(getattr(read, name), stated[name])
    elif isinstance(stated, list):
        assert isinstance(read, tuple | list)
        for one, told in zip(read, stated, strict=True):
            assert_says(one, told)
    else:
        assert read == stated


@every_kind
def test_an_example_is_read_as_what_it_says_and_recorded_as_it_is_stated(kind: OperationKind) -> None:
    read = content_of(kind)
    assert isinstance(read, EVERY_KIND[kind])
    assert_says(read, CONTENTS[kind])
    assert list(read.content().items()) == list(CONTENTS[kind].items())
    assert json.loads(json.dumps(read.content())) == CONTENTS[kind]


# -- Example rows ----------------------------------------------------------------------------------

Row = Mapping[str, Any]
EXAMPLE_ROWS: Mapping[str, list[Row]] = STORY["rows"]
OF_TYPE = {"string": str, "boolean": bool, "double": float, "int": int, "bigint": int}
BITS = {"int": 31, "bigint": 63}
FLOW = "east-to-west"

every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


class Story:
    """The examples as a ledger."""

    def relation(self, table: str) -> Relation:
        known = next(one for one in TABLES if one.name == table)
        return pa.Table.from_pylist([dict(row) for row in EXAMPLE_ROWS[table]], schema=arrow_schema(known))


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
    assert EXAMPLE_ROWS[table.name]
    assert [tuple(row) for row in EXAMPLE_ROWS[table.name]] == [
        table.column_names for _ in EXAMPLE_ROWS[table.name]
    ]


@every_table
def test_values_of_an_example_are_of_the_types_of_their_columns(table: Table) -> None:
    wrong = [
        (column.name, row[column.name])
        for row in EXAMPLE_ROWS[table.name]
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
        for rows in EXAMPLE_ROWS.values()
        for row in rows
        for key, value in row.items()
        if key.endswith("topic_id")
    }
    assert ids == {"0vKk3c8nTzWq5mJxY1bD2A", "pB7dR4xuQ1G9sLw2eZk6fQ"}
    assert all(len(topic_id_bytes(one)) == 16 for one in ids)


def test_contents_are_those_of_the_examples_of_operations() -> None:
    assert [json.loads(row["content"]) for row in EXAMPLE_ROWS["operations"]] == [
        CONTENTS[row["kind"]] for row in EXAMPLE_ROWS["operations"]
    ]
    asked = EXAMPLE_ROWS["operations"][0]
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
    sides = {"from_cluster": "east", "to_cluster": "west"}
    (answer,) = run_query(catalog.query("offset_translation"), sides, Story()).to_pylist()
    assert (answer["committed_offset"], answer["target_offset"], answer["status"]) == (1400, 1380, "exact")
    assert "`billing` at offset 1,400. That commit translates to 1,380." in " ".join(PROTOCOL.split())
    (commit,) = CONTENTS["offsets_set"]["commits"]
    assert (commit["source_offset"], commit["to"], commit["status"]) == (1400, 1380, "exact")
