"""Ledgers on disk and in memory: empty, written from memory, to be maintained."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ledger.clock import Clock
from ledger.facts.roles import writer_of
from ledger.facts.state import FactLog, WriterClaim
from ledger.facts.tables import TABLES, WRITERS, Row
from ledger.store.delta_tables import create_tables, table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import TableUpkeep
from ledger.store.merging import data_files
from ledger.store.session import FLOW_TABLES, ClaimedOperations, OperatorOperations, WriterSession
from ledger.store.snapshots import DeltaSnapshot, open_ledger
from ledger.store.sql import Relation, Snapshot
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.cases import Case, cases_of
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import TABLE, append, copied_to, row, watermark
from tests.support.operated import LaterClock

# -- Operation logs --------------------------------------------------------------------------------


def numbered() -> Callable[[], str]:
    """Operation ids that tell the order, for stories that are to be the same every time."""
    numbers = count(1)
    return lambda: f"operation-{next(numbers)}"


def operators(ledger: MemoryLedger, clock: Clock) -> OperatorOperations:
    return OperatorOperations(MemoryFactLog(ledger, clock), operator="memory", new_id=numbered())


def claimed(fact_log: FactLog, flow: str, *, operator: str = "driver") -> ClaimedOperations:
    """The log of a driver that claims the flow now."""
    log = ClaimedOperations(operator=operator, new_id=numbered())
    log.begin(WriterSession.claimed(fact_log, writer_of(flow), FLOW_TABLES, claim_of(flow)))
    return log


def claim_of(flow: str) -> Row:
    """A row of `writers` without its stamp."""
    stamp = {"writer", "writer_epoch", "round", "recorded_at_ms"}
    whole = row(WRITERS.name, event="claimed", flow=flow, host="test:1:1")
    return {name: value for name, value in whole.items() if name not in stamp}


# -- Nothing in them -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryStore:
    ledger: MemoryLedger
    log: FactLog

    def rows(self, table: str) -> Sequence[dict[str, Any]]:
        return self.ledger.rows(table)

    def merge(self, table: str) -> None:
        assert self.ledger.merge(table, self.ledger.files(table))


@dataclass(frozen=True, slots=True)
class DeltaStore:
    path: str
    log: FactLog

    def rows(self, table: str) -> Sequence[dict[str, Any]]:
        """By Delta's own reader, not by the program's."""
        return DeltaTable(table_uri(self.path, table)).to_pyarrow_table().to_pylist()  # type: ignore[no-any-return]

    def merge(self, table: str) -> None:
        DeltaTable(table_uri(self.path, table)).optimize.compact()


def memory_store() -> MemoryStore:
    ledger = MemoryLedger()
    return MemoryStore(ledger, MemoryFactLog(ledger, LaterClock()))


def delta_store(folder: Path, empty_ledger: Path) -> DeltaStore:
    """A copy of the empty ledger below the folder."""
    path = copied_to(folder, empty_ledger)
    return DeltaStore(path, DeltaFactLog(path, LaterClock()))


# -- Written from memory ---------------------------------------------------------------------------


COVERING = (
    *("failover_loss", "finished_groups", "lag_over_time", "lineage", "topic_drift"),
    *("audit_l8_nothing_missing", "permission_gaps", "cluster_groups"),
)
"""Queries that read every view but those of `not_equal`, which is too dear to be pasted, and those between clusters."""


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


# -- Projections -----------------------------------------------------------------------------------


def rewrite_block(file: Path, rows: pa.Table) -> None:
    """Other rows in a block of a projection, whose footer says what it said."""
    footer = pq.read_metadata(file).metadata or {}
    with pq.ParquetWriter(file, rows.schema, compression="zstd") as writer:
        writer.add_key_value_metadata({key: value for key, value in footer.items() if b"Ledger" in key})
        writer.write_table(rows)


# -- To be maintained ------------------------------------------------------------------------------

_HOUR_S = 3_600
_SUPERSEDED_AT = re.compile(r'(?<="deletionTimestamp":)\d+')


@dataclass
class Maintained:
    """A ledger whose clock stands, and a recorder that appends to one of its tables."""

    path: str
    clock: FakeClock
    log: DeltaFactLog
    claimed: WriterClaim
    appended: int = 0

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.appended += 1
            self.log.append(self.claimed, TABLE, self.appended, [watermark(self.appended)])

    def upkeep(self, table: str = TABLE, *, keep_hours: int = 1) -> TableUpkeep:
        return TableUpkeep(self.path, table, self.clock, keep_hours=keep_hours)

    def opened(self) -> DeltaTable:
        return DeltaTable(table_uri(self.path, TABLE))

    def offsets(self) -> list[int]:
        """In the order in which they are read."""
        rows = open_ledger(self.path).now().rows(TABLE, [])
        return [row["high_watermark"] for row in rows]

    @property
    def folder(self) -> Path:
        return Path(self.path) / TABLE

    def on_disk(self) -> set[str]:
        return {file.name for file in self.folder.glob("*.parquet")}

    def named(self) -> set[str]:
        """The files of the newest version."""
        return {file.path for file in data_files(self.opened())}

    def later(self, hours: float) -> None:
        make_older(self.folder, hours)


def make_older(table: Path, hours: float) -> None:
    """As if all that is there, and what was superseded, had been made so much earlier."""
    for file in table.rglob("*"):
        changed = file.stat().st_mtime - hours * _HOUR_S
        if file.suffix == ".json":
            file.write_text(_SUPERSEDED_AT.sub(lambda at: _moved(at, hours), file.read_text()))
        os.utime(file, (changed, changed))


def _moved(at: re.Match[str], hours: float) -> str:
    return str(int(at[0]) - round(hours * _HOUR_S * 1000))
