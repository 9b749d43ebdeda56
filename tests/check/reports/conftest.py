"""A ledger with something for every section of a report."""

from pathlib import Path

import pytest

from tests.support.ledger_rows import copied_to
from tests.support.operated import LaterClock, Operated, WrittenLedger, operated_copy

BEGAN_MS = 1_766_304_000_000
HOSTILE_TOPIC = "<img src=http://evil/x onerror=alert(1)>|`*_[a](http://evil)\x1b[2J"
"""Kafka has no such topic; a row may say so."""


def at(seconds: int) -> int:
    return BEGAN_MS + seconds * 1000


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> WrittenLedger:
    """An hour: 100 offsets copied at once, a reading of 160 at 600 s, 30 of them lost, a driver that is silent."""
    made = WrittenLedger(copied_to(tmp_path_factory.mktemp("reported"), empty_ledger), LaterClock())
    made.writer("claimed", "elsewhere:1:1", epoch=1, at_ms=at(0))
    made.copied({("orders", 0): 100, (HOSTILE_TOPIC, 0): 10}, at_ms=at(10))
    made.watermark("orders", 0, end=100, at_ms=at(20))
    made.watermark(HOSTILE_TOPIC, 0, end=10, at_ms=at(21))
    made.watermark("orders", 0, end=160, at_ms=at(600))
    lost = made.lost_row("orders", 0, 100, 130)
    made.append("offset_syncs", lost, at_ms=at(1_200))
    made.append("offset_syncs", made.lost_row(HOSTILE_TOPIC, 0, 10, 12, cause="skipped"), at_ms=at(1_210))
    made.writer("alive", "elsewhere:1:1", epoch=1, round_number=9, at_ms=at(3_600))
    return made


@pytest.fixture
def flow(written: WrittenLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operated:
    return operated_copy(tmp_path, written, capsys)
