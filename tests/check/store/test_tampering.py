"""Edits of a ledger's files by who owns its store: what changes what is read is found (all of them: `tests/soak`)."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from ledger.clock import SystemClock
from ledger.store.copying import copy_ledger
from ledger.store.heads import anchors_at
from tests.support.tampering import EDITS, SOUND, Written, tried, verified, written


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Written:
    return written(tmp_path_factory.mktemp("tampered"), empty_ledger)


TRIED = {"log": 10}
"""Of other kinds it is six; most entries of the log lie before a checkpoint, and nobody reads them."""


@pytest.mark.parametrize("kind", EDITS)
def test_what_changes_what_is_read_is_found(ledger: Written, tmp_path: Path, kind: str) -> None:
    came_to = Counter(
        tried(ledger, tmp_path, kind, number, whole=False) for number in range(TRIED.get(kind, 6))
    )
    assert came_to.keys() <= SOUND[kind]
    assert came_to["found"] >= 2


def test_columns_of_another_table_in_the_log_are_found(ledger: Written, tmp_path: Path) -> None:
    """All files and their links are as they were; Delta's readers show other columns of them."""
    to = Path(shutil.copytree(ledger.path, tmp_path / "edited"))
    log, other = to / "operations" / "_delta_log", to / "high_watermarks" / "_delta_log"
    created = next(
        json.loads(line) for line in (other / f"{0:020}.json").read_text().splitlines() if "metaData" in line
    )
    last = max(log.glob("*.json"))
    last.write_text(f"{last.read_text()}{json.dumps(created)}\n")
    assert "hidden" in " ".join(verified(to, [ledger.anchor], ledger.now_ms, ("operations",)))


def test_a_column_of_a_file_that_the_log_does_not_have_is_found(ledger: Written, tmp_path: Path) -> None:
    """It was renamed: libraries read none of its values, and say nothing."""
    to = Path(shutil.copytree(ledger.path, tmp_path / "edited"))
    file = max((to / "operations").glob("*.parquet"), key=lambda one: one.stat().st_mtime)
    file.write_bytes(file.read_bytes().replace(b"ticket", b"tickev"))
    found = verified(to, [ledger.anchor], ledger.now_ms, ("operations",))
    assert "unreadable" in " ".join(found), found


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
