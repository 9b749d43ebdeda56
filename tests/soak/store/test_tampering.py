"""Ten thousand edits of a ledger's files: what changes what is read is found (but for bounds of pages), or harmless."""

import time
from collections import Counter
from pathlib import Path

import pytest

from ledger.store.delta_tables import create_tables
from tests.support.tampering import EDITS, SOUND, Written, tried, written

OF_EACH = 1_700


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("tampered")
    create_tables(str(folder / "empty"), now_ms=1)
    return written(folder, folder / "empty")


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("kind", EDITS)
def test_what_changes_what_is_read_is_found(ledger: Written, tmp_path: Path, kind: str) -> None:
    came_to: Counter[str] = Counter()
    number = 0
    while came_to.total() - came_to["nothing"] < OF_EACH:
        came_to[tried(ledger, tmp_path, kind, number, whole=True)] += 1
        number += 1
        if number % 50 == 0 or came_to.keys() - SOUND[kind]:
            print(f"{kind}: {dict(came_to)} after {number}, {time.process_time():.0f} s of CPU", flush=True)
    assert came_to.keys() <= SOUND[kind]
