"""A table of a ledger that is missing, a folder that is away, and what is no ledger's folder: refused, never made."""

import errno
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from ledger.errors import DamagedLedgerError, LedgerUnavailableError, SetupError
from ledger.facts.tables import KEEP_SUPERSEDED_HOURS, TABLES
from ledger.store import delta_tables
from ledger.store.delta_tables import create_tables, table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import TableUpkeep
from ledger.store.session import RECORDER_TABLES
from ledger.store.snapshots import DeltaLedger, open_ledger
from ledger.store.state import DeltaLedgerState
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import row

RECORDER = "recorder:e"
CLAIM = {
    name: value
    for name, value in row("writers", event="claimed", host="h:1:1").items()
    if name not in ("writer", "writer_epoch", "round", "recorded_at_ms", "shut_out")
}


def test_a_folder_that_is_away_has_no_empty_tables(tmp_path: Path) -> None:
    """Whoever takes a folder that is not mounted for empty tables records everything again."""
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    state = DeltaLedgerState(open_ledger(path))
    upkeep = TableUpkeep(path, "topics", FakeClock(), keep_hours=KEEP_SUPERSEDED_HOURS)
    Path(path).rename(f"{path}-away")
    reads = (lambda: state.last_topic_states("e"), lambda: state.positions("f"))
    for asked in (*reads, upkeep.due, upkeep.clean):
        with pytest.raises(LedgerUnavailableError) as refused:
            asked()
        assert not isinstance(refused.value, DamagedLedgerError)
    with pytest.raises(SetupError, match="is not a ledger"):
        open_ledger(path)


def test_of_several_that_create_a_ledger_at_once_one_creates_each_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have seen that a table is missing before one creates it. One does, for that gives the table its id."""
    path, created = str(tmp_path / "ledger"), []
    together, create = threading.Barrier(3, timeout=30), delta_tables._create

    def create_together(*arguments: Any) -> bool:
        together.wait()
        created.append(create(*arguments))
        return created[-1]

    monkeypatch.setattr(delta_tables, "_create", create_together)
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda now_ms: create_tables(path, now_ms=now_ms), range(3)))
    assert sorted(name for names in found for name in names) == sorted(table.name for table in TABLES)
    assert sorted(created) == [False] * 2 * len(TABLES) + [True] * len(TABLES)
    assert {DeltaTable(table_uri(path, table.name)).version() for table in TABLES} == {0}


def test_a_table_that_the_ledger_has_had_is_missed_by_all_and_made_by_nobody(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    shutil.move(table_uri(path, "groups"), tmp_path / "groups")
    log = DeltaFactLog(path, FakeClock())
    state = DeltaLedgerState(DeltaLedger(path))
    for used in (
        lambda: open_ledger(path),
        lambda: state.last_groups("e"),
        lambda: log.append_next("operator", "groups", []),
        lambda: create_tables(path, now_ms=2),
        lambda: log.claim(RECORDER, RECORDER_TABLES, CLAIM),
        lambda: TableUpkeep(path, "groups", FakeClock(), keep_hours=KEEP_SUPERSEDED_HOURS).planned(),
    ):
        with pytest.raises(
            DamagedLedgerError, match=f"had a table groups, and {path}/groups is missing.*Put that folder"
        ):
            used()
    shutil.move(tmp_path / "groups", table_uri(path, "groups"))
    assert create_tables(path, now_ms=3) == []
    log.claim(RECORDER, RECORDER_TABLES, CLAIM)


def test_a_ledger_whose_claims_are_gone_is_not_made_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    DeltaFactLog(path, FakeClock()).claim(RECORDER, ["high_watermarks"], CLAIM)
    shutil.rmtree(table_uri(path, "writers"))
    with pytest.raises(DamagedLedgerError, match="had a table writers"):
        create_tables(path, now_ms=2)
    assert not Path(path, "writers").exists()


@pytest.mark.parametrize("name", ["a%20b", "a%2Fb", "a\\b", "a[1]", "a\nb"])
def test_a_folder_that_delta_reads_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(SetupError, match=r"cannot have .* in its path"):
        create_tables(str(tmp_path / name / "ledger"), now_ms=1)
    with pytest.raises(SetupError, match=r"cannot have .* in its path"):
        open_ledger(str(tmp_path / name / "ledger"))
    assert [*tmp_path.rglob("*")] == [tmp_path / name]


def test_folders_above_a_ledger_are_made_by_nobody(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"{tmp_path}/volume is no folder.*mkdir -p {tmp_path}/volume"):
        create_tables(str(tmp_path / "volume" / "ledger"), now_ms=1)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_this_user_may_not_read_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)

    def refused(place: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(place))

    shutil.move(table_uri(path, "writers"), tmp_path / "writers")  # who may do all is refused nothing
    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(
        SetupError, match=f"{path} cannot be read: this user may not do that there; nothing was read"
    ):
        open_ledger(path)
