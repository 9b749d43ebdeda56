"""Edits of a ledger's files by who owns its store: what changes what is read is found (all of them: `tests/soak`)."""

from collections import Counter
from pathlib import Path

import pytest

from ledger.clock import SystemClock
from ledger.store.copying import copy_ledger
from ledger.store.heads import anchors_at
from tests.support.tampering import EDITS, Written, tried, verified, written


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Written:
    return written(tmp_path_factory.mktemp("tampered"), empty_ledger)


@pytest.mark.parametrize("kind", EDITS)
def test_what_changes_what_is_read_is_found(ledger: Written, tmp_path: Path, kind: str) -> None:
    came_to = Counter(tried(ledger, tmp_path, kind, number, whole=False) for number in range(12))
    assert came_to.keys() <= {"found", "harmless", "nothing"}
    assert came_to["found"] >= 2


def test_an_older_copy_is_found_by_an_anchor_alone(ledger: Written) -> None:
    assert verified(ledger.older, [], ledger.now_ms, ("operations",)) == []
    found = verified(ledger.older, [ledger.anchor], ledger.now_ms, ("operations",))
    assert found == ["operations operator 0 9 missing"]


def test_a_copy_has_the_heads_of_its_cut(ledger: Written, tmp_path: Path) -> None:
    copy_ledger(
        str(ledger.path),
        str(tmp_path / "copy"),
        keep_hours=1,
        clock=SystemClock(),
        progress=lambda _line: None,
    )
    [anchor] = anchors_at(str(tmp_path / "copy"))
    assert anchor.heads == ledger.anchor.heads
    assert verified(tmp_path / "copy", [anchor], ledger.now_ms) == []
