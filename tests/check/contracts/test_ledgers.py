"""Ledgers in memory, by DuckDB and on Delta keep the contracts of what appends to them and reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.facts.cuts import Cut
from ledger.facts.tables import STAMP, TABLE_BY_NAME, TABLES, WRITERS, Filter, in_order
from ledger.store.relations import filtered_rows, last_recorded_at_ms, newest_rows
from ledger.store.snapshots import DeltaLedger
from ledger.store.state import DeltaRows, SnapshotRows
from tests.simulation.ledger.rows import MemoryRows
from tests.simulation.ledger.tables import MemoryLedger, MemorySnapshot
from tests.support.contracts.fact_log import FactLogContract, SharedFactLogContract
from tests.support.contracts.operation_log import (
    ClaimedOperationsContract,
    Operations,
    OperatorOperationsContract,
    SharedOperatorOperationsContract,
    claimed_operations,
    operator_operations,
)
from tests.support.contracts.row_source import Rows, RowSourceContract
from tests.support.ledgers import DeltaStore, MemoryStore, delta_store, memory_store


class TestMemoryFactLog(FactLogContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return memory_store()


@pytest.mark.fault(31)
class TestDeltaFactLog(SharedFactLogContract):
    @pytest.fixture
    def store(self, tmp_path: Path, empty_ledger: Path) -> DeltaStore:
        return delta_store(tmp_path, empty_ledger)


class TestMemoryOperatorOperations(OperatorOperationsContract):
    @pytest.fixture
    def operations(self) -> Operations:
        return operator_operations(memory_store())


class TestDeltaOperatorOperations(SharedOperatorOperationsContract):
    @pytest.fixture
    def operations(self, tmp_path: Path, empty_ledger: Path) -> Operations:
        return operator_operations(delta_store(tmp_path, empty_ledger))


class TestMemoryClaimedOperations(ClaimedOperationsContract):
    @pytest.fixture
    def operations(self) -> Operations:
        return claimed_operations(memory_store())


class TestDeltaClaimedOperations(ClaimedOperationsContract):
    @pytest.fixture
    def operations(self, tmp_path: Path, empty_ledger: Path) -> Operations:
        return claimed_operations(delta_store(tmp_path, empty_ledger))


@dataclass(frozen=True, slots=True)
class DuckRows:
    """Implements `RowSource` by what readers on Delta use of DuckDB, on tables of Arrow."""

    ledger: MemoryLedger

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        return in_order(filtered_rows(self._now().relation(table), filters))

    def newest(self, table: str, filters: Sequence[Filter], grain: Sequence[str]) -> list[dict[str, Any]]:
        columns = TABLE_BY_NAME[table].column_names[len(STAMP) :]
        return newest_rows(self._now().relation(table), filters, grain, columns)

    def claims(self, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        return self.rows(WRITERS.name, filters)

    def last_recorded_at_ms(self, writer: str) -> int | None:
        found = [last_recorded_at_ms(self._now().relation(table.name), writer) for table in TABLES]
        return max((at_ms for at_ms in found if at_ms is not None), default=None)

    def _now(self) -> MemorySnapshot:
        return self.ledger.at(self.ledger.latest())


class TestMemoryRows(RowSourceContract):
    @pytest.fixture
    def rows(self) -> Rows:
        store = memory_store()
        return Rows(store, MemoryRows(store.ledger))


class TestDuckRows(RowSourceContract):
    @pytest.fixture
    def rows(self) -> Rows:
        store = memory_store()
        return Rows(store, DuckRows(store.ledger))


@dataclass(slots=True)
class _CutAgain:
    """A ledger at the cut of all that it has, whenever it is asked."""

    path: str
    last: tuple[Cut, SnapshotRows] | None = None

    @property
    def _now(self) -> SnapshotRows:
        ledger = DeltaLedger(self.path)
        cut = ledger.now().cut
        if self.last is None or self.last[0] != cut:
            self.last = cut, SnapshotRows(ledger.at(cut))
        return self.last[1]

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        return self._now.rows(table, filters)

    def newest(self, table: str, filters: Sequence[Filter], grain: Sequence[str]) -> list[dict[str, Any]]:
        return self._now.newest(table, filters, grain)

    def claims(self, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        return self._now.claims(filters)

    def last_recorded_at_ms(self, writer: str) -> int | None:
        return self._now.last_recorded_at_ms(writer)


class TestSnapshotRows(RowSourceContract):
    @pytest.fixture
    def rows(self, tmp_path: Path, empty_ledger: Path) -> Rows:
        store = delta_store(tmp_path, empty_ledger)
        return Rows(store, _CutAgain(store.path))


class TestDeltaRows(RowSourceContract):
    @pytest.fixture
    def rows(self, tmp_path: Path, empty_ledger: Path) -> Rows:
        store = delta_store(tmp_path, empty_ledger)
        return Rows(store, DeltaRows(store.path))
