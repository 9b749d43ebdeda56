"""Ledgers with nothing in them as contracts want them: in memory, and on Delta."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from ledger.facts.state import FactLog
from ledger.store.delta_tables import table_uri
from ledger.store.log import DeltaFactLog
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_copies import copied_to
from tests.support.operated import LaterClock


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
