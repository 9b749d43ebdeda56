"""The newest version of a table is known from its log, without opening it whenever somebody asks."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ledger.store.delta_tables import create_tables, newest_version, table_uri
from tests.support.ledger_rows import append, row

TABLE = "checkpoints"


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    return path


def newest(path: str) -> DeltaTable:
    found = newest_version(path, TABLE)
    assert found is not None
    return found


def test_a_table_is_opened_once_per_version(path: str) -> None:
    first = newest(path)
    assert newest(path) is first
    append(path, TABLE, [row(TABLE)])
    second = newest(path)
    assert (first.version(), second.version()) == (0, 1)
    assert newest(path) is second
    append(path, TABLE, [row(TABLE)])
    append(path, TABLE, [row(TABLE)])
    assert newest(path).version() == 3


def test_another_table_in_its_place_is_opened_though_it_has_the_same_version(path: str) -> None:
    before = newest(path).metadata().id
    shutil.rmtree(path)
    create_tables(path, now_ms=1)
    assert newest(path).metadata().id != before


def test_a_table_that_is_away_is_not_taken_from_memory(path: str) -> None:
    newest(path)
    shutil.move(path, path + ".away")
    with pytest.raises(TableNotFoundError):
        newest(path)
    shutil.move(path + ".away", path)
    assert newest(path).version() == 0


def test_an_entry_of_the_log_that_was_cleaned_away_tells_nothing(path: str) -> None:
    append(path, TABLE, [row(TABLE)])
    assert newest(path).version() == 1
    DeltaTable(table_uri(path, TABLE)).create_checkpoint()
    for entry in Path(table_uri(path, TABLE), "_delta_log").glob("*.json"):
        entry.unlink()
    first, second = newest(path), newest(path)
    assert (first.version(), second.version()) == (1, 1)
    assert first is not second
