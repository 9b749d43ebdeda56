"""Ledgers on disk that hold what cases and generated ledgers hold in memory."""

from pathlib import Path

import pyarrow as pa

from ledger.facts.tables import TABLES
from ledger.store.delta_tables import create_tables
from ledger.store.snapshots import DeltaSnapshot, open_ledger
from ledger.store.sql import Relation, Snapshot
from tests.support.cases import Case, cases_of
from tests.support.ledger_rows import append


def largest_case(query: str) -> Case:
    """The case that has most to tell."""
    return max(cases_of(query), key=lambda case: sum(map(len, case.blocks.values())))


def written(path: Path, source: Snapshot) -> DeltaSnapshot:
    """The rows of a ledger in memory, each table in two appends where it has two rows."""
    create_tables(str(path), now_ms=1)
    return filled(str(path), source)


def filled(path: str, source: Snapshot) -> DeltaSnapshot:
    """The same in an empty ledger that is there."""
    for table in TABLES:
        appended_in_two(path, table.name, source.relation(table.name))
    return open_ledger(path).now()


def appended_in_two(path: str, table: str, relation: Relation) -> None:
    """The rows of a table in memory in two appends where there are two rows."""
    assert isinstance(relation, pa.Table)
    rows = relation.to_pylist()
    for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        if part:
            append(path, table, part)
