"""What checks share to be quick: an empty ledger that is copied for each test."""

from pathlib import Path

import pytest

from ledger.store.delta_tables import create_tables


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Created at millisecond 1; to be copied, not to be written to."""
    path = tmp_path_factory.mktemp("empty") / "ledger"
    create_tables(str(path), now_ms=1)
    return path
