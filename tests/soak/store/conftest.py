"""A store for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stores import Store, store


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("MIRROR_LEDGER_CACHE", str(tmp_path / "cache"))
    with store(tmp_path / "store") as found:
        yield found
