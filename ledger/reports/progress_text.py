"""A running flow in one line: what it copied, how fast, and how far it is behind as far as its driver knows."""

from collections.abc import Iterator
from dataclasses import dataclass

from ledger.domain.words.count_words import counted
from ledger.mirror.driver.run_progress import Lag, RunProgress


@dataclass(frozen=True, slots=True)
class Rate:
    """What was copied in a stretch of time."""

    records: int
    bytes: int
    seconds: float

    def __str__(self) -> str:
        per_second = (
            f"{self.records / self.seconds:,.0f} records/s, {self.bytes / 1e6 / self.seconds:,.1f} MB/s"
        )
        return f"{per_second} in the last {self.seconds:,.0f} s"


def progress_line(flow: str, progress: RunProgress, rate: Rate | None) -> str:
    """`rate` None: there is no stretch of time yet to tell it of."""
    summary = progress.summary
    parts = [f"{counted(summary.records, 'record')}, {summary.bytes / 1e6:,.1f} MB copied"]
    if rate is not None:
        parts.append(str(rate))
    parts += [_lag(progress), *_still(progress)]
    return f"{flow}: {'; '.join(parts)}"


def _lag(progress: RunProgress) -> str:
    lag = progress.lag
    if not lag.partitions and not lag.unknown:
        return "no partition is being copied"
    if not lag.partitions:
        return f"lag unknown: the source has not answered yet for {counted(lag.unknown, 'partition')}"
    if not progress.is_lag_known and not lag.unknown:
        return f"lag unknown; it was {counted(lag.offsets, 'record')} {lag.age_seconds:,.0f} s ago"
    unknown = f", and unknown for {counted(lag.unknown, 'partition')}" if lag.unknown else ""
    return f"lag {_measured(lag)}{unknown}"


def _measured(lag: Lag) -> str:
    waits = "" if lag.behind_seconds is None else f", for {lag.behind_seconds:,.0f} s or longer"
    age = "" if lag.age_seconds is None else f", as of {lag.age_seconds:,.0f} s ago"
    return f"{counted(lag.offsets, 'record')}{waits}{age}"


def _still(progress: RunProgress) -> Iterator[str]:
    if progress.stopped:
        yield f"{counted(progress.stopped, 'partition')} stopped"
    if progress.paused:
        yield f"{counted(progress.paused, 'partition')} paused"
