"""L4 on real Delta: epochs, shut-out, read-back, and what a commit says about itself."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tenacity import wait_none

from ledger.adapters.delta import fact_log
from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.reading import open_ledger
from ledger.adapters.delta.state import DeltaLedgerState
from ledger.adapters.delta.tables import create_tables
from ledger.adapters.system import SystemClock
from ledger.errors import LedgerUnavailableError, MirrorLedgerError, PreconditionError, ShutOutError
from ledger.ports import WriterClaim
from tests.support.recorder_rows import TABLE, WRITER, claim, watermark


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


def test_a_later_epoch_shuts_the_earlier_one_out(log: DeltaFactLog, path: str) -> None:
    first = claim(log)
    log.append(first, TABLE, 1, [watermark(10)])
    second = claim(log, "host:2:2")
    assert second.epoch == first.epoch + 1
    with pytest.raises(ShutOutError, match="was shut out of high_watermarks by epoch 2"):
        log.append(first, TABLE, 2, [watermark(20)])
    log.append(second, TABLE, 1, [watermark(30)])
    assert offsets(path) == [10, 30]


@pytest.mark.fault(31)
def test_a_round_is_appended_once(log: DeltaFactLog, path: str) -> None:
    claimed = claim(log)
    log.append(claimed, TABLE, 1, [watermark(10)])
    log.append(claimed, TABLE, 1, [watermark(10)])  # the outcome of the first was unknown to its driver
    assert offsets(path) == [10]


def test_writers_do_not_shut_each_other_out(log: DeltaFactLog, path: str) -> None:
    east, west = claim(log), claim(log, writer="recorder:west")
    log.append(west, TABLE, 1, [watermark(1)])
    log.append(east, TABLE, 1, [watermark(2)])
    assert offsets(path) == [1, 2]


def test_of_two_claims_at_once_at_most_one_holds_an_epoch(log: DeltaFactLog, path: str) -> None:
    claim(log)

    def compete(number: int) -> WriterClaim | MirrorLedgerError:
        try:
            return claim(log, f"host:{number}:{number}")
        except PreconditionError as error:
            return error

    with ThreadPoolExecutor(max_workers=2) as side_by_side:
        outcomes = list(side_by_side.map(compete, (1, 2)))
    held = [outcome for outcome in outcomes if isinstance(outcome, WriterClaim)]
    assert held, outcomes
    assert len({one.epoch for one in held}) == len(held), "an epoch has one holder"


def test_a_round_that_is_appended_twice_at_once_is_there_once(log: DeltaFactLog, path: str) -> None:
    """A driver that does not know whether its append got through, and the append itself, still on its way."""
    claimed = claim(log)
    with ThreadPoolExecutor(max_workers=4) as side_by_side:
        for number in range(1, 6):
            rows = [watermark(number)]
            appends = [side_by_side.submit(log.append, claimed, TABLE, number, rows) for _ in range(4)]
            assert [append.result() for append in appends] == [None] * 4
    assert offsets(path) == [1, 2, 3, 4, 5]


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
    with pytest.raises(LedgerUnavailableError, match=f"{path}/operations cannot be read"):
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
