"""Ledgers from before a table was added within the schema version: `topics`, as if it had come later."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ledger.facts import tables
from ledger.store.delta_tables import HAD_TABLES, create_tables, table_uri

ADDED = "topics"


def add_within_the_version(patched: pytest.MonkeyPatch) -> None:
    """From now on a ledger may be without the table."""
    patched.setattr(tables, "ADDED_TABLES", frozenset({ADDED}))


def made_before(path: Path) -> str:
    """A ledger as the first program of the schema version makes it."""
    create_tables(str(path), now_ms=1)
    never_had(str(path), ADDED)
    return str(path)


def never_had(path: str, table: str) -> None:
    """A ledger as it was before it had a table, and before anybody noted which ones it has."""
    shutil.rmtree(table_uri(path, table))
    DeltaTable(table_uri(path, "writers")).alter.set_table_properties(
        {HAD_TABLES: "writers"}, raise_if_not_exists=False
    )
