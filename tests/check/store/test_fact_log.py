"""L4 on real Delta: epochs, shut-out, read-back, and what a commit says about itself."""

import errno
import shutil
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tenacity import wait_none

from ledger.clock import SystemClock
from ledger.errors import DamagedLedgerError, LedgerUnavailableError, OtherLedgerError, ShutOutError
from ledger.store import delta_tables
from ledger.store import log as fact_log
from ledger.store.delta_tables import create_tables
from ledger.store.last_rows import LastRowsReader, TableLastRows
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.support.ledger_rows import TABLE, WRITER, claim, watermark


@pytest.fixture
def path(tmp_path: Path) -> str:
    create_tables(str(tmp_path / "ledger"), now_ms=SystemClock().now_ms())
    return str(tmp_path / "ledger")


@pytest.fixture
def log(path: str) -> DeltaFactLog:
    return DeltaFactLog(path, SystemClock())


def offsets(path: str) -> list[int]:
    rows = DeltaTable(f"{path}/{TABLE}").to_pyarrow_table(columns=["high_watermark"])
    return sorted(int(row["high_watermark"]) for row in rows.to_pylist())


def test_a_commit_says_when_its_rows_were_recorded(log: DeltaFactLog, path: str) -> None:
    log.append(claim(log), TABLE, 1, [watermark(10), watermark(20)])
    table = DeltaTable(f"{path}/{TABLE}")
    (stamped,) = set(table.to_pyarrow_table(columns=["recorded_at_ms"])["recorded_at_ms"].to_pylist())
    assert table.history(1)[0]["recorded_at_ms"] == str(stamped)


def test_a_ledger_that_takes_nothing_is_told_before_it_is_given_up(
    log: DeltaFactLog, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    claimed, table, away = claim(log), Path(path) / TABLE, Path(path) / "away"
    monkeypatch.setattr(fact_log, "_CONFLICT_RETRIES", fact_log._CONFLICT_RETRIES.copy(wait=wait_none()))
    table.rename(away)
    with pytest.raises(LedgerUnavailableError, match="nothing was appended") as told:
        log.append(claimed, TABLE, 1, [watermark(1)])
    assert told.value.exit_code == 1
    assert caplog.text.count("the ledger takes no append since 20") == 1
    away.rename(table)
    log.append(claimed, TABLE, 1, [watermark(1)])
    assert offsets(path) == [1]


def test_a_table_that_is_gone_is_told_with_its_place(log: DeltaFactLog, path: str) -> None:
    state = DeltaLedgerState(open_ledger(path))
    (Path(path) / "operations").rename(Path(path) / "away")
    with pytest.raises(DamagedLedgerError, match=f"had a table operations, and {path}/operations is missing"):
        state.requests("f")


def test_rows_cannot_be_deleted(log: DeltaFactLog, path: str) -> None:
    log.append(claim(log), TABLE, 1, [watermark(10)])
    with pytest.raises(Exception, match=r"(?i)append"):
        DeltaTable(f"{path}/{TABLE}").delete()
    assert offsets(path) == [10]


def test_state_reads_what_was_appended(log: DeltaFactLog, path: str) -> None:
    claimed = claim(log)
    log.append(claimed, TABLE, 1, [watermark(10)])
    log.append(claimed, TABLE, 2, [watermark(20)])
    state = DeltaLedgerState(open_ledger(path))
    assert [row.high_watermark for row in state.last_high_watermarks("east")] == [20]
    assert state.last_high_watermarks("west") == []
    last = state.last_claim(WRITER)
    assert last is not None
    assert (last.epoch, last.host, last.released) == (claimed.epoch, "host:1:1", False)
    assert state.positions("nobody") == []


def test_a_table_is_not_opened_again_between_appends(
    log: DeltaFactLog, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = claim(log)
    log.append(claimed, TABLE, 1, [watermark(10)])
    opened: list[str] = []

    def counted(uri: str) -> DeltaTable:
        opened.append(uri)
        return DeltaTable(uri)

    monkeypatch.setattr(fact_log, "DeltaTable", counted)
    monkeypatch.setattr(delta_tables, "DeltaTable", counted)
    log.append(claimed, TABLE, 2, [watermark(20)])
    log.append(claimed, TABLE, 3, [watermark(30)])
    other = DeltaFactLog(path, SystemClock())
    other.append(claim(other, writer="recorder:west"), TABLE, 1, [watermark(31)])
    opened.clear()
    log.append(claimed, TABLE, 4, [watermark(40)])
    assert opened == [], "what others have appended is read on, and the entry of the append alone read back"
    assert offsets(path) == [10, 20, 30, 31, 40]


def test_who_follows_a_writer_reads_it_again_when_it_has_appended(
    log: DeltaFactLog, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed, state = claim(log), DeltaLedgerState(open_ledger(path))
    log.append(claimed, TABLE, 1, [watermark(10)])
    first = state.last_claim(WRITER)
    read: list[str] = []
    of = LastRowsReader.of

    def noted(reader: LastRowsReader, table: str) -> TableLastRows:
        read.append(table)
        return of(reader, table)

    monkeypatch.setattr(LastRowsReader, "of", noted)
    other = DeltaFactLog(path, SystemClock())
    other.append(claim(other, writer="recorder:west"), TABLE, 1, [watermark(20)])
    assert state.last_claim(WRITER) == first
    assert read == [], "another writer's appends say nothing of this one"
    time.sleep(0.002)
    log.append(claimed, TABLE, 2, [watermark(30)])
    second, anew = state.last_claim(WRITER), DeltaLedgerState(open_ledger(path)).last_claim(WRITER)
    assert second == anew
    assert first is not None
    assert second is not None
    assert second.last_recorded_at_ms > first.last_recorded_at_ms
    claim(log)
    third = state.last_claim(WRITER)
    assert third is not None
    assert third.epoch == first.epoch + 1


def test_what_others_appended_meanwhile_is_seen_before_an_append(log: DeltaFactLog, path: str) -> None:
    first, other = claim(log), DeltaFactLog(path, SystemClock())
    log.append(first, TABLE, 1, [watermark(10)])
    second = claim(other)
    other.append(second, TABLE, 1, [watermark(20)])
    with pytest.raises(ShutOutError):
        log.append(first, TABLE, 2, [watermark(11)])
    assert offsets(path) == [10, 20]


def test_a_table_in_the_place_of_the_one_appended_to_is_appended_to(log: DeltaFactLog, path: str) -> None:
    claimed = claim(log)
    shutil.copytree(path, f"{path}.saved")
    log.append(claimed, TABLE, 1, [watermark(10)])
    shutil.rmtree(path)
    shutil.move(f"{path}.saved", path)
    log.append(claimed, TABLE, 1, [watermark(20)])
    assert offsets(path) == [20]


def test_a_ledger_that_was_created_anew_takes_nothing_of_a_claim_on_the_former_one(
    log: DeltaFactLog, path: str
) -> None:
    """Somebody removes the folder and types `init` while a driver of another host is at work."""
    claimed = claim(log)
    log.append(claimed, TABLE, 1, [watermark(10)])
    shutil.rmtree(path)
    create_tables(path, now_ms=2)
    with pytest.raises(
        OtherLedgerError, match=f"another ledger lies at {path} than the one that was claimed there"
    ):
        log.append(claimed, TABLE, 2, [watermark(20)])
    assert offsets(path) == []
    log = DeltaFactLog(path, SystemClock())
    log.append(claim(log), TABLE, 1, [watermark(30)])
    assert offsets(path) == [30]


def test_a_full_disk_is_told_in_one_line(
    log: DeltaFactLog, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = claim(log)
    monkeypatch.setattr(fact_log, "_CONFLICT_RETRIES", fact_log._CONFLICT_RETRIES.copy(wait=wait_none()))

    def full(*_given: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pq, "write_table", full)
        with pytest.raises(LedgerUnavailableError) as told:
            log.append(claimed, TABLE, 1, [watermark(10)])
    assert str(told.value).endswith("could not be appended to high_watermarks: no room is left on its disk")
    assert [*Path(path, TABLE).glob("*.parquet")] == [], "half a file is left"
    log.append(claimed, TABLE, 1, [watermark(10)])
    assert offsets(path) == [10]
