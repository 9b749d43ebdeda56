"""Flows whose ledgers are served."""

from pathlib import Path

import pytest

from tests.support.operated import Operated, operated, own_mark


@pytest.fixture
def flow(tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_ledger: Path) -> Operated:
    """Its driver, this process, has copied 100 of 130 records of a partition, and all of two others."""
    made = operated(tmp_path, empty_ledger, capsys)
    made.writer("claimed", own_mark(), epoch=1)
    made.copied({("orders", 0): 100, ("orders", 1): 40, ("payments", 0): 7}, bytes=1_000, raw_batches=3)
    made.watermark("orders", 0, end=100)
    made.watermark("orders", 0, end=130)
    made.watermark("orders", 1, end=40)
    made.watermark("payments", 0, end=7)
    return made


@pytest.fixture
def idle(tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_ledger: Path) -> Operated:
    """A flow that has never run."""
    return operated(tmp_path, empty_ledger, capsys)
