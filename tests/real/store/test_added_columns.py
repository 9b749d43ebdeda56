"""A ledger from before a column was added, as the first program of the schema version wrote it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from ledger.errors import SetupError
from ledger.facts.tables import (
    ADDED_COLUMNS,
    SCHEMA_VERSION,
    SCHEMA_VERSION_PROPERTY,
    TABLE_BY_NAME,
    TABLES,
    Table,
)
from ledger.store import relations
from ledger.store.delta_tables import (
    add_missing_columns,
    arrow_schema,
    create_tables,
    missing_columns,
    stored_schema,
    table_uri,
)
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import row

WRITER = "flow:f"


@pytest.fixture(autouse=True)
def _gained(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `config_hash` had been added within the schema version."""
    monkeypatch.setitem(ADDED_COLUMNS, "writers", ("config_hash",))


def claim(**values: object) -> dict[str, object]:
    named = {"writer": WRITER, "writer_epoch": 1, "flow": "f", "event": "claimed", "host": "h:1:1"}
    return {**row("writers"), "config_hash": None, **named, **values}


def append(path: str, schema: pa.Schema, **values: object) -> None:
    row = {name: value for name, value in claim(**values).items() if name in schema.names}
    write_deltalake(table_uri(path, "writers"), pa.Table.from_pylist([row], schema=schema), mode="append")


def older_schema(table: Table) -> pa.Schema:
    schema = arrow_schema(table)
    for column in ADDED_COLUMNS.get(table.name, ()):
        schema = schema.remove(schema.get_field_index(column))
    return schema


@pytest.fixture
def before(tmp_path: Path) -> str:
    """A ledger whose `writers` has no added column, with a claim in it."""
    path = str(tmp_path / "ledger")
    for table in TABLES:
        DeltaTable.create(
            table_uri(path, table.name),
            older_schema(table),
            configuration={SCHEMA_VERSION_PROPERTY: str(SCHEMA_VERSION)},
            raise_if_key_not_exists=False,
        )
    append(path, older_schema(TABLE_BY_NAME["writers"]))
    return path


def columns(path: str) -> list[str]:
    return [field.name for field in DeltaTable(table_uri(path, "writers")).schema().fields]


def hashes(path: str) -> list[Any]:
    return [row["config_hash"] for row in open_ledger(path).now().rows("writers", [])]


def with_duckdb(_monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that DuckDB reads itself."""


def with_deltalake(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from an object store."""
    monkeypatch.setattr(relations, "_GLOB", re.compile(""))


@pytest.fixture(params=[with_duckdb, with_deltalake])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    request.param(monkeypatch)
    return request.param  # type: ignore[no-any-return]


@pytest.mark.usefixtures("reader")
def test_what_a_table_lacks_reads_as_null(before: str) -> None:
    assert hashes(before) == [None]
    last = DeltaLedgerState(open_ledger(before)).last_claim(WRITER)
    assert last is not None
    assert (last.epoch, last.config_hash) == (1, None)


@pytest.mark.usefixtures("reader")
def test_init_adds_the_column_and_older_files_read_as_null(before: str) -> None:
    assert create_tables(before, now_ms=5) == []
    stored = stored_schema(TABLE_BY_NAME["writers"])
    assert set(columns(before)) == set(stored.names)
    append(before, stored, writer_epoch=2, recorded_at_ms=2, config_hash="abc")
    assert hashes(before) == [None, "abc"]
    last = DeltaLedgerState(open_ledger(before)).last_claim(WRITER)
    assert last is not None
    assert last.config_hash == "abc"
    version = DeltaTable(table_uri(before, "writers")).version()
    assert create_tables(before, now_ms=6) == []
    assert DeltaTable(table_uri(before, "writers")).version() == version, "nothing is added twice"


def test_a_program_that_does_not_know_the_column_leaves_it_null(before: str, spark: SparkSession) -> None:
    create_tables(before, now_ms=5)
    schema = older_schema(TABLE_BY_NAME["writers"])
    row = {name: value for name, value in claim(writer_epoch=2).items() if name in schema.names}
    frame = spark.createDataFrame(pa.Table.from_pylist([row], schema=schema))
    frame.write.format("delta").mode("append").save(table_uri(before, "writers"))
    assert hashes(before) == [None, None]


def test_two_that_add_it_at_once_both_find_it_done(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = DeltaTable(table_uri(before, "writers"))
    add_missing_columns(before, "writers", now_ms=5)
    with monkeypatch.context() as patched:
        opened = iter([stale])
        patched.setattr(
            "ledger.store.delta_tables.DeltaTable", lambda uri: next(opened, None) or DeltaTable(uri)
        )
        add_missing_columns(before, "writers", now_ms=6)
    assert columns(before).count("config_hash") == 1


def test_a_claim_adds_the_column_before_it_appends(before: str) -> None:
    log = DeltaFactLog(before, FakeClock())
    row = {name: value for name, value in claim().items() if name not in ("writer", "writer_epoch", "round")}
    row = {**row, "config_hash": "abc"}
    row.pop("recorded_at_ms")
    taken = log.claim("flow:g", ["offset_syncs"], row)
    log.append(taken, "writers", 1, [{**row, "event": "released"}])
    assert sorted(hashes(before), key=str) == [None, "abc", "abc"]


def test_a_column_that_was_always_there_is_not_added(tmp_path: Path) -> None:
    uri = table_uri(str(tmp_path), "writers")
    write_deltalake(uri, pa.table({"writer": ["w"]}))
    with pytest.raises(SetupError, match=r"no column writer_epoch, .*nothing was read or written"):
        missing_columns(DeltaTable(uri), "writers")


def test_added_columns_may_be_null() -> None:
    assert ADDED_COLUMNS
    for table, names in ADDED_COLUMNS.items():
        found = {column.name: column for column in TABLE_BY_NAME[table].columns}
        assert all(found[name].nullable for name in names)
