"""Verdicts on the ledger and on the machine."""

from dataclasses import replace

import pytest

from ledger.doctor import places
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.measurements import TableCommit, TableState
from ledger.doctor.results import CheckResult, Unmeasured
from ledger.facts.cuts import ClockStep
from ledger.store.merging import BEHIND_FILES, DataFile

NOW = 1_700_000_000_000
PROPERTIES = {
    "mirrorLedger.schemaVersion": "3",
    "delta.appendOnly": "true",
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 2 hours",
    "delta.checkpointInterval": "100",
}
CREATED = TableCommit(0, "CREATE TABLE", False, NOW - 5_000)
APPENDED = TableCommit(1, "WRITE", False, NOW - 2_000)


def table(*commits: TableCommit, **properties: str | None) -> TableState:
    changed = {name.replace("_", "."): value for name, value in properties.items()}
    merged = {name: value for name, value in {**PROPERTIES, **changed}.items() if value is not None}
    return TableState(merged, (*commits, APPENDED, CREATED), ())


def results(*tables: TableState | None) -> dict[Check, CheckResult]:
    found = places.ledger({f"t{number}": state for number, state in enumerate(tables)}, now_ms=NOW)
    return {result.check: result for result in found}


def verdict(check: Check, changed: TableState) -> Verdict:
    return results(table(), changed)[check].verdict


def test_a_good_ledger() -> None:
    found = results(table(), table())
    assert {result.verdict for result in found.values()} == {Verdict.OK}
    assert found[Check.LEDGER_COMMITS].measured == "t0 2 s ago, t1 2 s ago"
    assert len(found) == 7


@pytest.mark.parametrize(
    ("state", "telling"),
    [
        (None, "no table t1"),
        (table(mirrorLedger_schemaVersion="2"), "t1 is of format 2"),
        (table(mirrorLedger_schemaVersion=None), "t1 is of format none"),
    ],
)
def test_what_is_no_ledger_fails_and_the_rest_is_unknown(state: TableState | None, telling: str) -> None:
    found = results(table(), state)
    assert found[Check.LEDGER_TABLES].verdict is Verdict.FAILED
    assert telling in found[Check.LEDGER_TABLES].measured
    rest = {check: result.verdict for check, result in found.items() if check is not Check.LEDGER_TABLES}
    assert len(rest) == 6
    assert set(rest.values()) == {Verdict.UNKNOWN}


def test_a_store_that_cannot_be_read_fails() -> None:
    first, *rest = places.ledger(Unmeasured("no such bucket"), now_ms=NOW)
    assert (first.check, first.verdict, first.measured) == (
        Check.LEDGER_TABLES,
        Verdict.FAILED,
        "no such bucket",
    )
    assert {result.verdict for result in rest} == {Verdict.UNKNOWN}


@pytest.mark.parametrize(
    ("value", "expected"), [("TRUE", Verdict.OK), ("false", Verdict.FAILED), (None, Verdict.FAILED)]
)
def test_append_only(value: str | None, expected: Verdict) -> None:
    assert verdict(Check.LEDGER_APPEND_ONLY, table(delta_appendOnly=value)) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("interval 3650 days", Verdict.OK),
        ("INTERVAL 1 WEEKS", Verdict.OK),
        ("interval 1 hour", Verdict.OK),
        ("interval 60 minutes", Verdict.OK),
        ("interval 59 minutes", Verdict.WARNING),
        ("interval 0 days", Verdict.WARNING),
        ("for ever", Verdict.WARNING),
        (None, Verdict.WARNING),
    ],
)
def test_what_readers_hold_on_to_stays(value: str | None, expected: Verdict) -> None:
    assert verdict(Check.LEDGER_RETENTION, table(delta_logRetentionDuration=value)) is expected
    assert verdict(Check.LEDGER_RETENTION, table(delta_deletedFileRetentionDuration=value)) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("50", Verdict.OK),
        ("1000", Verdict.OK),
        ("49", Verdict.WARNING),
        ("1001", Verdict.WARNING),
        (None, Verdict.WARNING),
    ],
)
def test_checkpoints(value: str | None, expected: Verdict) -> None:
    assert verdict(Check.LEDGER_CHECKPOINTS, table(delta_checkpointInterval=value)) is expected


@pytest.mark.parametrize(
    ("operation", "overwrites", "expected"),
    [
        ("WRITE", False, Verdict.OK),
        ("OPTIMIZE", False, Verdict.OK),
        ("VACUUM START", False, Verdict.OK),
        ("WRITE", True, Verdict.FAILED),
        *((operation, False, Verdict.FAILED) for operation in sorted(places.REWRITES)),
        ("SET TBLPROPERTIES", False, Verdict.OK),
        ("CLONE", False, Verdict.WARNING),
    ],
)
def test_history(operation: str, overwrites: bool, expected: Verdict) -> None:
    changed = table(TableCommit(7, operation, overwrites, NOW))
    result = results(table(), changed)[Check.LEDGER_HISTORY]
    assert result.verdict is expected
    if expected is not Verdict.OK:
        assert f"t1 version 7: {operation}" in result.measured


def small(count: int) -> tuple[DataFile, ...]:
    return tuple(DataFile(f"{number}", 8_000, 21, NOW, NOW) for number in range(count))


@pytest.mark.parametrize(
    ("files", "expected"), [(0, Verdict.OK), (BEHIND_FILES - 1, Verdict.OK), (BEHIND_FILES, Verdict.WARNING)]
)
def test_files_that_wait_to_be_merged(files: int, expected: Verdict) -> None:
    result = results(replace(table(), files=small(files)))[Check.LEDGER_MAINTENANCE]
    assert result.verdict is expected
    reported = (
        f"t0: {files} of {files} files wait to be merged" if expected is Verdict.WARNING else f"{files} wait"
    )
    assert reported in result.measured or files == 0
    assert result.measured.endswith("no merge in the logs as they are kept")


@pytest.mark.parametrize(
    ("hours_ago", "count", "expected"),
    [(2.1, 1_000, Verdict.WARNING), (2.1, 999, Verdict.OK), (1.9, 1_000, Verdict.OK)],
)
def test_entries_of_the_log_that_should_be_gone(hours_ago: float, count: int, expected: Verdict) -> None:
    at_ms = NOW - round(hours_ago * 3_600_000)
    commits = [TableCommit(version, "WRITE", False, at_ms) for version in range(count)]
    assert results(table(*commits))[Check.LEDGER_MAINTENANCE].verdict is expected


def test_when_files_were_merged_last() -> None:
    merges = [TableCommit(version, "WRITE", False, NOW - version * 60_000, merges=True) for version in (3, 2)]
    assert (
        results(table(*merges))[Check.LEDGER_MAINTENANCE].measured
        == "0 files, 0 wait to be merged; last merge 2 min ago"
    )


def test_a_table_without_commits_in_sight_has_no_age() -> None:
    assert results(TableState(PROPERTIES, (), ()))[Check.LEDGER_COMMITS].measured == "no commit in sight"


# Where it is -----------------------------------------------------------------------------------


def step(back_ms: int, days_ago: int, number: int = 1) -> ClockStep:
    before_ms = NOW - days_ago * 86_400_000
    return ClockStep("offset_syncs", "flow:f", 2, number, before_ms - back_ms, before_ms)


@pytest.mark.parametrize(
    ("steps", "expected", "telling"),
    [
        ([], Verdict.OK, "rise in all tables"),
        ([step(1_001, 7)], Verdict.WARNING, "offset_syncs, flow:f epoch 2 round 1: "),
        ([step(1_001, 7)], Verdict.WARNING, "Z, 1 s 1 ms before its append before"),
        (
            [step(1_000, 7)],
            Verdict.OK,
            "1 step back, by at most a second or over 7 days ago; the last: offset",
        ),
        ([step(1_001, 8)], Verdict.OK, "1 step back, by at most a second or over 7 days ago"),
        ([step(90_000_000, -1)], Verdict.WARNING, "1 d 1 h before"),
        ([step(2_000, 1, 3), step(5_000, 2, 4)], Verdict.WARNING, "round 4: "),
        (
            [step(500, 1, 3), step(5_000, 9, 4)],
            Verdict.OK,
            "2 steps back, by at most a second or over 7 days ago",
        ),
        (Unmeasured("no such bucket"), Verdict.UNKNOWN, "no such bucket"),
    ],
)
def test_clocks_that_stepped_back(
    steps: list[ClockStep] | Unmeasured, expected: Verdict, telling: str
) -> None:
    """What a clock says that is ahead of ours is no longer ago for that."""
    found = places.clocks(steps, now_ms=NOW)
    assert (found.verdict, telling in found.measured) == (expected, True), found.measured
    assert (found.advice is None) == (expected is Verdict.OK)


@pytest.mark.parametrize(
    ("folder", "refused", "expected"),
    [
        ("/data", True, Verdict.OK),
        ("/data", False, Verdict.FAILED),
        ("/data", Unmeasured("read-only"), Verdict.UNKNOWN),
        (None, Unmeasured("not local"), Verdict.SKIPPED),
    ],
)
def test_exclusive_creation(folder: str | None, refused: bool | Unmeasured, expected: Verdict) -> None:
    assert places.exclusive_create(folder, refused).verdict is expected


def test_the_place_is_never_known() -> None:
    assert places.place().verdict is Verdict.SKIPPED


@pytest.mark.parametrize(
    ("folder", "free", "expected"),
    [
        ("/data", 5 * 2**30, Verdict.OK),
        ("/data", 5 * 2**30 - 1, Verdict.WARNING),
        ("/data", 512 * 2**20, Verdict.WARNING),
        ("/data", 512 * 2**20 - 1, Verdict.FAILED),
        ("/data", Unmeasured("gone"), Verdict.UNKNOWN),
        (None, Unmeasured("not local"), Verdict.SKIPPED),
    ],
)
def test_room(folder: str | None, free: int | Unmeasured, expected: Verdict) -> None:
    assert places.disk(folder, free).verdict is expected


def test_the_machine() -> None:
    assert places.java("java 17").verdict is Verdict.OK
    assert places.java(Unmeasured("no java")).verdict is Verdict.FAILED
    assert places.python((3, 11, 0)).verdict is Verdict.OK
    assert places.python((3, 10, 9)).verdict is Verdict.FAILED
