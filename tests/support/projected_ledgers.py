"""Ledgers that grow by rounds, with projections extended in between: answers by these are those of all rows."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ledger.facts.state import WriterClaim
from ledger.facts.tables import Row
from ledger.store import catalog, narrowed, sql
from ledger.store.catalog import Value
from ledger.store.delta_tables import opened_at, table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.projections import PROJECTED, Projection
from ledger.store.snapshots import DeltaLedger, DeltaSnapshot
from tests.benchmarks.long_ledgers import (
    BEGAN_MS,
    FLOW,
    FLOW_BACK,
    ROUND_MS,
    Length,
    rows_to_append,
)
from tests.support.fakes import FakeClock

LENGTH = Length(24, 3, is_both_ways=True)
WRITERS = {"offset_syncs": f"flow:{FLOW}", "checkpoints": "recorder:east", "high_watermarks": "recorder:east"}
BOTH: Mapping[str, Value] = {"from_cluster": "east", "to_cluster": "west"}
BACK: Mapping[str, Value] = {"from_cluster": "west", "to_cluster": "east"}
ASKED: tuple[tuple[str, Mapping[str, Value]], ...] = (
    ("flow_positions", {"flow": FLOW}),
    ("cluster_groups", {"cluster": "east"}),
    ("offset_translation", BOTH),
    ("replication_lag", {"flow": FLOW, "fresh_since_ms": 0}),
    ("flow_status", {"flow": FLOW_BACK}),
    ("flow_recording", {"flow": FLOW}),
    ("flow_losses", {"flow": FLOW}),
    ("offset_translation", BACK),
)
"""The first two are quick, and read projections of offset syncs and of checkpoints."""


@dataclass
class Grown:
    """A ledger to which rounds are appended, and whose projections are extended in between."""

    path: str
    clock: FakeClock
    rounds: int = LENGTH.rounds

    def append(self, rounds: int) -> None:
        for number in range(self.rounds + 1, self.rounds + 1 + rounds):
            self.clock.now_s = (BEGAN_MS + number * ROUND_MS) / 1000
            log = DeltaFactLog(self.path, self.clock)
            for table, writer in WRITERS.items():
                log.append(WriterClaim(writer, 1), table, number, list(_appended(table, number)))
        self.rounds += rounds

    def extend(self, tables: Collection[str] = PROJECTED) -> None:
        for table in tables:
            opened = opened_at(table_uri(self.path, table))
            is_done = Projection(self.path, table).extend_when_due(
                opened, now_ms=self.clock.now_ms(), least_rows=1
            )
            assert is_done or table not in WRITERS

    def now(self) -> DeltaSnapshot:
        return DeltaLedger(self.path).as_of(None, now_ms=self.clock.now_ms())

    def at_round(self, number: int) -> DeltaSnapshot:
        return DeltaLedger(self.path).as_of(str(BEGAN_MS + number * ROUND_MS), now_ms=self.clock.now_ms())

    def files(self, table: str) -> list[Path]:
        return sorted(Path(table_uri(self.path, f"projections/{table}")).glob("block-*.parquet"))


@cache
def _appended(table: str, number: int) -> tuple[Row, ...]:
    return tuple(rows_to_append(table, LENGTH, number))


def require_same(at: DeltaSnapshot, *, is_narrowed: bool = True, asked: int = 2) -> None:
    """The first so many of `ASKED` answer what all rows answer."""
    for name, params in ASKED[:asked]:
        query = catalog.query(name)
        every: list[Row] = sql.run_query(query, params, at).to_pylist()
        assert narrowed.run_query(query, params, at).to_pylist() == every, (name, params)
        assert every or params is BACK or name == "flow_losses", name
    require_narrowed(at, is_narrowed)


def require_narrowed(at: DeltaSnapshot, is_narrowed: bool = True) -> None:
    """Whether projections are read."""
    for (name, params), table in zip(ASKED[:2], ("offset_syncs", "checkpoints"), strict=True):
        assert (table in narrowed.for_question(at, catalog.query(name), params)) is is_narrowed
