"""`PROTOCOL.md` and `schema.py` say the same about every table and column."""

import re
from pathlib import Path

import pytest

import ledger
from ledger.facts.syncs import SyncCause
from ledger.facts.tables import SCHEMA_VERSION, STAMP, TABLES, Column, Table
from ledger.store import catalog
from tests.support.documents import definitions, section

PROTOCOL = (Path(ledger.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| `([^`]+)` \| (yes|no) \| (.+) \|$", re.MULTILINE)


def stated(section: str) -> list[tuple[str, str, str, str]]:
    return [(row[1], row[2], row[3], row[4]) for row in ROW.finditer(section)]


def section_of(table: Table) -> str:
    return section(PROTOCOL, f"`{table.name}`")


LONG = "array<struct<...>>"
"""In place of the type of an array, which stands below the table."""


def as_stated(column: Column) -> tuple[str, str, str, str]:
    shown = LONG if column.type.startswith("array<struct<") else column.type
    return column.name, shown, "yes" if column.nullable else "no", column.meaning


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_is_stated_as_it_is(table: Table) -> None:
    columns = [as_stated(column) for column in table.columns if column not in STAMP]
    assert stated(section_of(table)) == columns
    assert f"One row per {table.row_per}." in section_of(table)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_long_types_are_stated_below_the_table(table: Table) -> None:
    long = {column.name: column.type for column in table.columns if as_stated(column)[1] == LONG}
    assert dict(re.findall(r"`(\w+)` is an `(array<struct<\w[^`]*)`", section_of(table))) == long


def test_the_stamp_comes_first_in_every_table() -> None:
    assert all(table.columns[: len(STAMP)] == STAMP for table in TABLES)
    before_tables = PROTOCOL.partition("### ")[0]
    assert stated(before_tables) == [as_stated(column) for column in STAMP]


def test_no_table_is_stated_that_does_not_exist() -> None:
    assert re.findall(r"^### `(\w+)`$", PROTOCOL, re.MULTILINE) == [table.name for table in TABLES]


def test_every_cause_of_an_offset_sync_is_stated() -> None:
    kinds = section(PROTOCOL, "Kinds of offset syncs")
    stated_causes = " ".join(re.findall(r"^- Cause: ([^.]*)\.$", kinds, re.MULTILINE | re.DOTALL))
    assert set(re.findall(r"`(\w+)`", stated_causes)) == set(SyncCause)


def test_every_view_is_stated() -> None:
    provided = {*catalog.view_names(), *catalog.names_between_clusters()} - INNER_VIEWS
    assert set(definitions(section(PROTOCOL, "Views"))) == provided


INNER_VIEWS = {"asked_stripes", "sync_pieces"}
"""Views that only other views read."""


def test_the_version_is_stated() -> None:
    assert f"Schema version: {SCHEMA_VERSION}," in PROTOCOL
