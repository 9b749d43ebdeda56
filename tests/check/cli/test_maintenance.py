"""`maintain`, and what `status` and `doctor` say when nobody does it."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ledger.clock import SystemClock
from ledger.facts.state import WriterClaim
from ledger.facts.tables import TABLE_BY_NAME
from ledger.store.delta_tables import table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.merging import FANOUT
from ledger.store.session import RECORDER_TABLES
from tests.support.commands import UnreachableFlow, command
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import TABLE, WRITER, append, row, watermark
from tests.support.ledgers import claim_of

MANY = 3 * FANOUT
"""Files that count as too many here: fewer are quicker to append."""


def appended(flow: UnreachableFlow, count: int) -> DeltaTable:
    log = DeltaFactLog(flow.config.ledger.path, SystemClock())
    for number in range(1, count + 1):
        log.append(WriterClaim(WRITER, 1), TABLE, number, [watermark(number)])
    return opened(flow)


def opened(flow: UnreachableFlow) -> DeltaTable:
    return DeltaTable(table_uri(flow.config.ledger.path, TABLE))


def test_what_is_done_is_told_by_table(with_ledger: UnreachableFlow) -> None:
    appended(with_ledger, FANOUT)
    done = command(with_ledger.capture, with_ledger.config, "maintain", "-o", "json")
    assert done.code == 0, done.err
    told = {row["table"]: row for row in json.loads(done.out)}
    assert told.keys() == TABLE_BY_NAME.keys()
    assert (told[TABLE]["files"], told[TABLE]["merged"], told[TABLE]["written"]) == (FANOUT, FANOUT, 1)
    assert {row["merged"] for name, row in told.items() if name != TABLE} == {0}
    assert len(opened(with_ledger).file_uris()) == 1
    again = command(with_ledger.capture, with_ledger.config, "maintain")
    assert again.code == 0, again.err


def test_a_dry_run_changes_nothing(with_ledger: UnreachableFlow) -> None:
    version = appended(with_ledger, FANOUT).version()
    done = command(with_ledger.capture, with_ledger.config, "maintain", "--dry-run", "-o", "json")
    assert (done.code, done.err) == (0, "dry run: nothing was written or removed\n")
    told = {row["table"]: row for row in json.loads(done.out)}
    assert (told[TABLE]["merged"], told[TABLE]["written"], told[TABLE]["log_entries"]) == (FANOUT, 0, None)
    assert opened(with_ledger).version() == version


def test_a_table_that_cannot_be_maintained_does_not_keep_the_others_from_it(
    with_ledger: UnreachableFlow,
) -> None:
    appended(with_ledger, FANOUT)
    for number in range(FANOUT):
        rows = [row("checkpoints", writer=WRITER, writer_epoch=1, round=number, recorded_at_ms=1)]
        append(with_ledger.config.ledger.path, "checkpoints", rows)
    broken = next(Path(with_ledger.config.ledger.path, "checkpoints").glob("*.parquet"))
    broken.write_text("no Parquet")
    done = command(with_ledger.capture, with_ledger.config, "maintain", "-o", "json")
    assert done.code == 1
    assert broken.name in done.err
    told = {row["table"]: row["merged"] for row in json.loads(done.out)}
    assert "checkpoints" not in told
    assert told[TABLE] == FANOUT


def test_projections_are_built_from_the_facts_again(with_ledger: UnreachableFlow) -> None:
    appended(with_ledger, 3)
    for _ in range(2):
        done = command(with_ledger.capture, with_ledger.config, "maintain", "--rebuild")
        assert (done.code, done.err) == (0, f"projections of {TABLE} were built from the facts\n")
    [block] = Path(table_uri(with_ledger.config.ledger.path, f"projections/{TABLE}")).glob("block-*")
    assert block.stat().st_size
    assert "--rebuild is given alone" in with_ledger.refused("maintain", "--rebuild", "--dry-run", code=2)


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [(("maintain", "offset_syncs"), "offset_syncs"), (("maintain", "--wide", "-o", "csv"), "--wide")],
)
def test_bad_arguments_are_named(
    with_ledger: UnreachableFlow, arguments: tuple[str, ...], telling: str
) -> None:
    assert telling in with_ledger.refused(*arguments, code=2)


def test_a_path_that_is_no_ledger_is_refused(without_ledger: UnreachableFlow) -> None:
    assert "is not a ledger" in without_ledger.refused("maintain", code=2)


@pytest.mark.parametrize("hours", ["0", "-1", "0.5", '"1"', "100000"])
def test_less_than_an_hour_is_refused(without_ledger: UnreachableFlow, hours: str) -> None:
    file = Path(without_ledger.config.file)
    file.write_text(file.read_text().replace("[ledger]", f"[ledger]\nkeep_superseded_hours = {hours}"))
    assert "ledger.keep_superseded_hours" in without_ledger.refused("maintain", code=2)


def test_status_and_doctor_say_when_nobody_merges(
    with_ledger: UnreachableFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("ledger.answers.flow_status", "ledger.doctor.places"):
        monkeypatch.setattr(f"{place}.BEHIND_FILES", MANY)

    def extended_by(*arguments: str) -> str:
        done = command(with_ledger.capture, with_ledger.config, *arguments)
        return done.out + done.err

    assert "maintenance" not in extended_by("status")
    assert "0 wait to be merged; no merge" in extended_by("doctor", "-o", "csv")
    appended(with_ledger, MANY)
    waiting = f"{MANY} of {MANY} files wait to be merged"
    assert f"ledger: maintenance of {TABLE} is behind: {waiting}" in extended_by("status")
    assert waiting in " ".join(extended_by("doctor", "-o", "csv").split())
    assert command(with_ledger.capture, with_ledger.config, "maintain").code == 0
    assert "maintenance" not in extended_by("status")
    assert "0 wait to be merged; last merge" in extended_by("doctor", "-o", "csv")


def test_facts_leave_where_they_may_not_be_kept(with_ledger: UnreachableFlow, tmp_path: Path) -> None:
    file, archive = Path(with_ledger.config.file), tmp_path / "archive"
    file.write_text(
        file.read_text().replace("[ledger]", f'[ledger]\nkeep_facts_days = 3\narchive = "{archive}"')
    )
    clock = FakeClock(SystemClock().now_ms() / 1000 - 9 * 86_400)
    log = DeltaFactLog(with_ledger.config.ledger.path, clock)
    claim = log.claim(WRITER, RECORDER_TABLES, {**claim_of("x"), "flow": None})
    for number in range(1, 2 * FANOUT):
        clock.now_s += 1
        log.append(claim, TABLE, number, [watermark(number)])
    done = command(with_ledger.capture, with_ledger.config, "maintain", "--dry-run")
    assert f"would leave the ledger into {archive}" in done.err
    assert not archive.exists()
    done = command(with_ledger.capture, with_ledger.config, "maintain", "--reason", "policy 7")
    assert done.code == 0, done.err
    assert f"left into {archive}/000001: rows {2 * FANOUT - 2} of {TABLE}\n" in done.err
    again = command(with_ledger.capture, with_ledger.config, "maintain")
    assert (again.code, again.err) == (0, "")
    asked = ("query", "write_pauses", "--param", "cluster=east", "--param", f"since_ms={clock.now_ms()}")
    refused = command(with_ledger.capture, with_ledger.config, *asked)
    assert (refused.code, f"All are in {archive}" in refused.err) == (2, True), refused.err
    audited = command(with_ledger.capture, with_ledger.config, "query", "audit_l8_nothing_missing")
    assert audited.code == 0
    assert "have left the ledger" in audited.err


@pytest.mark.parametrize("line", ["keep_facts_days = 3", 'archive = "there"'])
def test_days_and_an_archive_belong_together(without_ledger: UnreachableFlow, line: str) -> None:
    file = Path(without_ledger.config.file)
    file.write_text(file.read_text().replace("[ledger]", f"[ledger]\n{line}"))
    assert "belong together" in without_ledger.refused("maintain", code=2)
