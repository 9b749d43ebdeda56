"""Operations of writers and of operators, in memory and on Delta, keep the contract of the operation log."""

from pathlib import Path

import pytest

from tests.support.contracts.operation_log import (
    ClaimedOperationsContract,
    Operations,
    OperatorOperationsContract,
    SharedOperatorOperationsContract,
    claimed_operations,
    operator_operations,
)
from tests.support.ledger_stores import delta_store, memory_store


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
