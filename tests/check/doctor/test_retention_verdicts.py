"""Verdicts on retention, told by the worst partition of a flow."""

from dataclasses import replace

import pytest

from ledger.doctor.checks import Check, Verdict
from ledger.doctor.flow import RetentionReading, retention
from ledger.doctor.results import CheckResult, Unmeasured

NOW = 1_700_000_000_000
HOUR = 3_600_000
BEHIND = RetentionReading(
    topic="orders",
    partition=0,
    position=900,
    log_start=0,
    end=1_000,
    timestamp_ms=NOW - HOUR,
    bytes=10_000,
    retention_ms=100 * HOUR,
    retention_bytes=100_000,
    delete_retention_ms=24 * HOUR,
)


def results(*readings: RetentionReading, share: float = 0.25) -> dict[Check, CheckResult]:
    return {result.check: result for result in retention("flow f", readings, now_ms=NOW, share=share)}


def verdict(check: Check, reading: RetentionReading) -> Verdict:
    return results(reading)[check].verdict


def test_a_flow_that_keeps_up() -> None:
    found = results(BEHIND)
    assert {result.verdict for result in found.values()} == {Verdict.OK}
    assert (
        found[Check.RETENTION_TIME].measured == "worst orders/0: 4 d 3 h of 4 d 4 h left, 100 records behind"
    )


def test_a_flow_without_positions_and_one_that_has_caught_up() -> None:
    assert {result.measured for result in results().values()} == {"the flow has no position yet"}
    found = results(replace(BEHIND, position=1_000, timestamp_ms=None))
    assert {(f.verdict, f.measured) for f in found.values()} == {
        (Verdict.OK, "1 partition, 0 records behind: caught up")
    }


@pytest.mark.parametrize(
    ("position", "expected"), [(100, Verdict.OK), (99, Verdict.FAILED), (0, Verdict.FAILED)]
)
def test_a_position_before_the_log_start_has_lost_records(position: int, expected: Verdict) -> None:
    assert verdict(Check.RETENTION_TIME, replace(BEHIND, position=position, log_start=100)) is expected


def test_what_is_gone_is_counted() -> None:
    lost = replace(BEHIND, position=40, log_start=100, partition=3)
    measured = results(BEHIND, lost)[Check.RETENTION_TIME].measured
    assert (
        measured
        == "orders/3: the flow stands at 40 of orders/3, the log starts at 100: 60 offsets were deleted"
    )


@pytest.mark.parametrize(
    ("age_h", "expected"),
    [(75, Verdict.OK), (76, Verdict.WARNING), (100, Verdict.WARNING), (500, Verdict.WARNING)],
)
def test_time_runs_out(age_h: int, expected: Verdict) -> None:
    assert verdict(Check.RETENTION_TIME, replace(BEHIND, timestamp_ms=NOW - age_h * HOUR)) is expected


def test_a_record_older_than_the_retention_time_may_go_at_any_time() -> None:
    result = results(replace(BEHIND, timestamp_ms=NOW - 101 * HOUR))[Check.RETENTION_TIME]
    assert "1 partition at risk" in result.measured
    assert "may be deleted at any time" in result.measured


@pytest.mark.parametrize(
    ("size", "expected"), [(750_000, Verdict.OK), (750_010, Verdict.WARNING), (2_000_000, Verdict.WARNING)]
)
def test_bytes_run_out(size: int, expected: Verdict) -> None:
    """A tenth of the offsets is not copied, and so a tenth of the bytes."""
    assert verdict(Check.RETENTION_BYTES, replace(BEHIND, bytes=size)) is expected


def test_a_size_that_is_not_told_is_unknown_where_it_matters() -> None:
    assert verdict(Check.RETENTION_BYTES, replace(BEHIND, bytes=None)) is Verdict.UNKNOWN
    assert verdict(Check.RETENTION_BYTES, replace(BEHIND, bytes=None, retention_bytes=None)) is Verdict.OK
    assert verdict(Check.RETENTION_BYTES, replace(BEHIND, bytes=None, position=1_000)) is Verdict.OK


@pytest.mark.parametrize(
    ("age_h", "expected"), [(18, Verdict.OK), (19, Verdict.WARNING), (48, Verdict.WARNING)]
)
def test_tombstones_are_dropped(age_h: int, expected: Verdict) -> None:
    assert verdict(Check.TOMBSTONES, replace(BEHIND, timestamp_ms=NOW - age_h * HOUR)) is expected


def test_no_limit_is_no_risk() -> None:
    old = replace(BEHIND, timestamp_ms=0, retention_ms=None, retention_bytes=None, delete_retention_ms=None)
    assert {f.measured for f in results(old).values()} == {
        "1 partition, 100 records behind: no limit applies"
    }


def test_the_worst_partition_is_told() -> None:
    worse = replace(BEHIND, partition=7, timestamp_ms=NOW - 90 * HOUR)
    result = results(BEHIND, worse, replace(BEHIND, partition=8))[Check.RETENTION_TIME]
    assert result.verdict is Verdict.WARNING
    assert result.measured.startswith("1 partition at risk; worst orders/7: 10 h of 4 d 4 h left")


def test_the_share_is_as_asked() -> None:
    assert results(BEHIND, share=0.995)[Check.RETENTION_TIME].verdict is Verdict.WARNING
    assert results(BEHIND, share=0.0)[Check.RETENTION_TIME].verdict is Verdict.OK


def test_positions_that_cannot_be_had_are_unknown() -> None:
    found = list(retention("flow f", Unmeasured("no ledger"), now_ms=NOW, share=0.25))
    assert [(f.check, f.verdict) for f in found] == [
        (Check.RETENTION_TIME, Verdict.UNKNOWN),
        (Check.RETENTION_BYTES, Verdict.UNKNOWN),
        (Check.TOMBSTONES, Verdict.UNKNOWN),
    ]
