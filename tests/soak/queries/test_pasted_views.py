"""What `mirror-ledger views --engine spark` prints makes a Spark session answer as the program does."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ledger.answers.elsewhere import for_spark
from ledger.facts.tables import TABLES
from ledger.store import catalog
from ledger.store.delta_tables import create_tables, table_uri
from ledger.store.snapshots import DeltaSnapshot, open_ledger
from ledger.store.sql import run_query
from tests.support.ledger_rows import append, copied_to
from tests.support.ledgers import appended_in_two, largest_case

ASKED = ("topic_drift", "flow_positions")
"""One reads the table that is empty at first; both are planned quickly by Spark."""
NEEDED = catalog.views_of(name for asked in ASKED for name in catalog.query(asked).reads)
OTHER_VIEWS = set(catalog.view_names()) - NEEDED.keys()
"""Spark takes long to look at all of them; `make soak` does."""
CASE = largest_case("topic_drift")
PARAMS = CASE.params(catalog.query(CASE.query))
SYNCS, TOPICS = "offset_syncs", "topics"

Answers = Mapping[str, list[dict[str, Any]]]


def on_duckdb(at: DeltaSnapshot) -> Answers:
    return {name: run_query(catalog.query(name), PARAMS, at).to_pylist() for name in ASKED}


def on_spark(spark: SparkSession, at: DeltaSnapshot) -> Answers:
    """As `queries/README.md` does it."""
    own = spark.newSession()
    for statement in for_spark(at).split(";\n"):
        if statement.strip() and not any(f"view {name} as" in statement for name in OTHER_VIEWS):
            own.sql(statement)
    own.createDataFrame([tuple(PARAMS.values())], "flow string").createOrReplaceTempView("params")
    return {name: [row.asDict() for row in own.sql(catalog.query(name).sql).collect()] for name in ASKED}


@pytest.fixture
def before(tmp_path: Path) -> str:
    """A ledger with the rows of a case in all tables but one."""
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    for table in TABLES:
        if table.name != TOPICS:
            appended_in_two(path, table.name, CASE.relation(table.name))
    return path


def test_a_token_answers_the_same_after_all_that_can_happen_to_a_ledger(
    spark: SparkSession, before: str, tmp_path: Path
) -> None:
    """A table gets its first rows, files are merged, old files and entries of the log removed, the ledger is copied.

    In this order, and rows are appended all the while: what is there then answers otherwise.
    """
    at = open_ledger(before).now()
    token, expected = at.cut.token, on_duckdb(at)
    assert all(expected.values())
    assert on_spark(spark, at) == expected
    appended_in_two(before, TOPICS, CASE.relation(TOPICS))
    append(before, SYNCS, later(before))
    for table in TABLES:
        merged_and_cleaned(before, table.name)
    (tmp_path / "elsewhere").mkdir()
    copy = copied_to(tmp_path / "elsewhere", Path(before))
    shutil.rmtree(before)
    at = open_ledger(copy).as_of(token, now_ms=0)
    assert on_duckdb(at) == expected
    assert on_spark(spark, at) == expected
    assert at.cut.token == token
    now = on_duckdb(open_ledger(copy).now())
    assert {name: now[name] == expected[name] for name in ASKED} == dict.fromkeys(ASKED, False)


def later(path: str) -> list[dict[str, Any]]:
    rows = open_ledger(path).now().rows(SYNCS, [])
    return [{**one, "writer_epoch": 1 << 20, "source_end": 1 << 40} for one in rows]


def merged_and_cleaned(path: str, table: str) -> None:
    """Nothing is left of what the newest version does not need."""
    opened = DeltaTable(table_uri(path, table))
    files = opened.file_uris()
    opened.optimize.compact()
    removed = opened.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert len(removed) == (len(files) if len(files) > 1 else 0)
    opened.create_checkpoint()
    for entry in (Path(table_uri(path, table)) / "_delta_log").glob("*.json"):
        if int(entry.stem) < opened.version():
            entry.unlink()
