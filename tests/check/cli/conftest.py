"""What tests of commands share: flows without clusters that answer, with a ledger and without."""

from pathlib import Path

import pytest

from tests.support.commands import UnreachableFlow, command, unreachable_flow
from tests.support.operated import Operated, operated, own_mark


@pytest.fixture
def idle(tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_ledger: Path) -> Operated:
    """A flow that has never run."""
    return operated(tmp_path, empty_ledger, capsys)


@pytest.fixture
def without_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> UnreachableFlow:
    return unreachable_flow(tmp_path, capsys)


@pytest.fixture
def with_ledger(without_ledger: UnreachableFlow) -> UnreachableFlow:
    assert command(without_ledger.capture, without_ledger.config, "init").code == 0
    assert without_ledger.commits() != {}
    return without_ledger


@pytest.fixture
def at_work(idle: Operated) -> Operated:
    """A flow with a driver at work: this process."""
    idle.writer("claimed", own_mark(), epoch=3)
    idle.copied({("orders", 0): 100, ("orders", 1): 50})
    idle.watermark("orders", 0, end=1_304)
    idle.watermark("orders", 1, end=50)
    return idle
