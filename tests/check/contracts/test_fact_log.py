"""Memory and Delta keep the contract of the fact log."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.tables import table_uri
from ledger.adapters.memory.fact_log import MemoryFactLog
from ledger.adapters.memory.tables import MemoryLedger
from ledger.adapters.system import SystemClock
from ledger.ports import FactLog
from tests.support.contracts.fact_log import FactLogContract, SharedFactLogContract
from tests.support.ledger_copies import copied_to


@dataclass(frozen=True, slots=True)
class MemoryStore:
    ledger: MemoryLedger
    log: FactLog

    def rows(self, table: str) -> Sequence[dict[str, Any]]:
        return self.ledger.rows(table)


@dataclass(frozen=True, slots=True)
class DeltaStore:
    path: str
    log: FactLog

    def rows(self, table: str) -> Sequence[dict[str, Any]]:
        """By Delta's own reader, not by the program's."""
        return DeltaTable(table_uri(self.path, table)).to_pyarrow_table().to_pylist()  # type: ignore[no-any-return]


class TestMemoryFactLog(FactLogContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        ledger = MemoryLedger()
        return MemoryStore(ledger, MemoryFactLog(ledger, SystemClock()))


@pytest.mark.fault(31)
class TestDeltaFactLog(SharedFactLogContract):
    @pytest.fixture
    def store(self, tmp_path: Path, empty_ledger: Path) -> DeltaStore:
        path = copied_to(tmp_path, empty_ledger)
        return DeltaStore(path, DeltaFactLog(path, SystemClock()))
