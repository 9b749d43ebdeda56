"""Verdicts on retention: how long what is not copied yet stays at the source.

Kafka deletes whole segments, when the largest timestamp in one is older than `retention.ms`, or the log
without it is still larger than `retention.bytes`. So a record stays at least as long as reported here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ledger.doctor.check_results import CheckResult, Unmeasured, counted, duration, named, size, unknown
from ledger.doctor.checks import Check, Verdict

DEFAULT_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a flow stands on one partition beside what the source still has.

    Limits are None when there is none. `timestamp_ms`: of the batch at the position, None when there is
    no batch. `bytes`: of the partition, None when the cluster did not say.
    """

    topic: str
    partition: int
    position: int
    log_start: int
    end: int
    timestamp_ms: int | None
    bytes: int | None
    retention_ms: int | None
    retention_bytes: int | None
    delete_retention_ms: int | None

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)

    @property
    def lost(self) -> int:
        """Records (or gaps) between the position and the log start."""
        return max(0, self.log_start - self.position)

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class Headroom:
    """What is left of a limit on one partition."""

    standing: Standing
    left: int
    limit: int

    @property
    def share(self) -> float:
        return self.left / self.limit if self.limit else 0.0


def retention(
    subject: str, standings: Sequence[Standing] | Unmeasured, *, now_ms: int, share: float
) -> Iterator[CheckResult]:
    """The three verdicts on a flow, each with its worst partition."""
    if isinstance(standings, Unmeasured):
        for check in (Check.RETENTION_TIME, Check.RETENTION_BYTES, Check.TOMBSTONES):
            yield unknown(subject, check, standings)
        return
    yield _time(subject, standings, now_ms, share)
    yield _bytes(subject, standings, share)
    yield _tombstones(subject, standings, now_ms, share)


def _time(subject: str, standings: Sequence[Standing], now_ms: int, share: float) -> CheckResult:
    check = Check.RETENTION_TIME
    lost = [standing for standing in standings if standing.lost]
    if lost:
        worst = max(lost, key=lambda standing: standing.lost)
        measured = (
            f"{named([standing.name for standing in lost])}: the flow stands at {worst.position} of {worst.name}, "
            f"the log starts at {worst.log_start}: {worst.lost:,} offsets were deleted"
        )
        advice = "what was deleted is recorded as lost when the flow runs; see on_loss, resume and skip-to"
        return CheckResult(subject, check, Verdict.FAILED, measured, advice)
    found = [
        Headroom(s, s.timestamp_ms + s.retention_ms - now_ms, s.retention_ms)
        for s in _behind(standings)
        if s.retention_ms is not None and s.timestamp_ms is not None
    ]
    advice = "let the flow catch up, or raise retention.ms at the source"
    return _by_worst(subject, check, standings, found, share, duration, advice)


def _bytes(subject: str, standings: Sequence[Standing], share: float) -> CheckResult:
    check = Check.RETENTION_BYTES
    bounded = [s for s in _behind(standings) if s.retention_bytes is not None]
    unsized = [s.name for s in bounded if s.bytes is None]
    if unsized:
        advice = "allow the mirror's principal to Describe the cluster at the source, which tells sizes"
        reason = f"the source does not tell the size of {named(unsized)}"
        return unknown(subject, check, Unmeasured(reason, at=subject, advice=advice))
    found = [
        Headroom(s, s.retention_bytes - _bytes_after_position(s), s.retention_bytes)
        for s in bounded
        if s.retention_bytes is not None
    ]
    advice = "let the flow catch up, or raise retention.bytes at the source"
    return _by_worst(subject, check, standings, found, share, size, advice)


def _tombstones(subject: str, standings: Sequence[Standing], now_ms: int, share: float) -> CheckResult:
    found = [
        Headroom(s, s.timestamp_ms + s.delete_retention_ms - now_ms, s.delete_retention_ms)
        for s in _behind(standings)
        if s.delete_retention_ms is not None and s.timestamp_ms is not None
    ]
    advice = (
        "tombstones may be dropped before they are copied: deleted keys would remain at the target; "
        "let the flow catch up, or raise delete.retention.ms"
    )
    return _by_worst(subject, Check.TOMBSTONES, standings, found, share, duration, advice)


def _behind(standings: Sequence[Standing]) -> list[Standing]:
    return [standing for standing in standings if standing.lag]


def _bytes_after_position(standing: Standing) -> int:
    """From the share of offsets: batches are taken to be of one size."""
    offsets = standing.end - standing.log_start
    return (standing.bytes or 0) * standing.lag // offsets if offsets else 0


def _by_worst(
    subject: str,
    check: Check,
    standings: Sequence[Standing],
    found: Sequence[Headroom],
    share: float,
    shown: Callable[[int], str],
    advice: str,
) -> CheckResult:
    if not found:
        lag = sum(standing.lag for standing in standings)
        why = "no limit applies" if lag else "caught up"
        measured = f"{counted(len(standings), 'partition')}, {lag:,} records behind: {why}"
        return CheckResult(
            subject, check, Verdict.OK, measured if standings else "the flow has no position yet"
        )
    worst = min(found, key=lambda headroom: headroom.share)
    at_risk = sum(headroom.share < share for headroom in found)
    left = (
        f"{shown(worst.left)} of {shown(worst.limit)} left"
        if worst.left > 0
        else "may be deleted at any time"
    )
    measured = f"worst {worst.standing.name}: {left}, {worst.standing.lag:,} records behind"
    if at_risk:
        measured = f"{counted(at_risk, 'partition')} at risk; {measured}"
        return CheckResult(subject, check, Verdict.WARNING, measured, advice)
    return CheckResult(subject, check, Verdict.OK, measured)
