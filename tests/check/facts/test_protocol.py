"""`PROTOCOL.md` has a section for every table, and names every cause and view."""

import re
from pathlib import Path

import pytest

import ledger
from ledger.facts.syncs import SyncCause
from ledger.facts.tables import SCHEMA_VERSION, STAMP, TABLES, Table
from ledger.store import catalog
from tests.support.documents import definitions, section

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


def test_every_view_is_stated() -> None:
    provided = {*catalog.view_names(), *catalog.names_between_clusters()} - INNER_VIEWS
    assert set(definitions(section(PROTOCOL, "Views"))) == provided


INNER_VIEWS = {"asked_stripes", "sync_pieces"}
"""Views that only other views read."""


def test_the_version_is_stated() -> None:
    assert f"Schema version: {SCHEMA_VERSION}," in PROTOCOL
