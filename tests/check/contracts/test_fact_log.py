"""Memory and Delta keep the contract of the fact log."""

from pathlib import Path

import pytest

from tests.support.contracts.fact_log import FactLogContract, SharedFactLogContract
from tests.support.ledger_stores import DeltaStore, MemoryStore, delta_store, memory_store


class TestMemoryFactLog(FactLogContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return memory_store()


@pytest.mark.fault(31)
class TestDeltaFactLog(SharedFactLogContract):
    @pytest.fixture
    def store(self, tmp_path: Path, empty_ledger: Path) -> DeltaStore:
        return delta_store(tmp_path, empty_ledger)
