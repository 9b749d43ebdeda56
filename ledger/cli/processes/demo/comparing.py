"""The verdict of the demonstration: both logs record for record, the groups, the loss that was reported, the audits."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ledger.cli.printing import put
from ledger.cli.processes.demo.failing_over import Failover
from ledger.cli.processes.demo.producing import Source
from ledger.cli.processes.demo.showing import Progress
from ledger.domain.words.time_words import duration
from ledger.errors import UnsafeError
from ledger.mirror.driver.run_summary import RunSummary
from ledger.sandbox.reading import Readings, Record, read_partitions, read_topics
from ledger.sandbox.resumption import Resumption

Records: TypeAlias = Counter[tuple[str, Record]]
"""How often each record of a topic is there."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Between the logs, once the source is back: `lost` is at the source alone, `surplus` nobody wrote at the target.

    `missing`: of the records that applications wrote at the target; each record is there once.
    """

    lost: int
    surplus: int
    missing: int


def compare_logs(
    source_servers: str, target_servers: str, source: Source, written: Readings, shown: Progress
) -> Difference:
    """Every record of both sides; the source's first ones are those that a client had read of it before."""
    with shown.step("read what was left behind on east") as step:
        left = read_partitions(source_servers, source.ends)
        step.outcome = f"{sum(map(len, left.values())):,} records"
    with shown.step("compare both logs, record for record") as step:
        at_source, new = _records(source.survivors, left), _records(written)
        at_target = _records(read_topics(target_servers, source.workload.topics))
        step.outcome = f"{at_source.total():,} records of east, {at_target.total():,} of west"
        return difference(at_source, at_target, new)


def difference(at_source: Records, at_target: Records, new: Records) -> Difference:
    """`new`: what applications wrote at the target."""
    apart = at_target.copy()
    apart.subtract(at_source)
    alone = +apart
    return Difference(lost=(-apart).total(), surplus=(alone - new).total(), missing=(new - alone).total())


def _records(*readings: Readings) -> Records:
    return Counter(
        (topic, placed.record)
        for reading in readings
        for (topic, _partition), records in reading.items()
        for placed in records
    )


@dataclass(frozen=True, slots=True)
class Played:
    """All that came of the demonstration; `downtime_s`: from the kill until applications could write at the target."""

    source: Source
    summary: RunSummary
    failover: Failover
    downtime_s: float
    written: Readings
    resumptions: Sequence[Resumption]
    difference: Difference


def problems(failover: Failover, resumptions: Sequence[Resumption], found: Difference) -> list[str]:
    """What was not as promised."""
    words = [str(one) for one in resumptions if not one.is_exact]
    if failover.records_lost != found.lost:
        words.append(f"{failover.records_lost} records were reported lost, {found.lost} are")
    if found.surplus:
        words.append(f"{found.surplus} records of west were written by nobody, or twice")
    if found.missing:
        words.append(f"{found.missing} records that were written on west are not there")
    return words


def close(played: Played, shown: Progress) -> None:
    """Print what came of it; raises `UnsafeError` when anything is not exact."""
    summary, source, resumptions = played.summary, played.source, played.resumptions
    lines = [
        f"mirrored   {summary.records:,} of {source.records:,} committed records, {summary.bytes / 1e6:,.1f} MB; "
        f"batches: {summary.raw_batches:,} raw, {summary.record_path_batches:,} record path",
        f"downtime   {duration(played.downtime_s)} from the kill to applications on west; "
        f"{duration(_downtime(played.failover))} of that within apply",
        f"lost       {_number(played.failover.records_lost)} records reported, "
        f"{_number(played.difference.lost)} found on east",
        f"written    {_sum(map(len, played.written.values()))} records on west after the failover",
        f"groups     {len(source.groups)} resumed on west, on {len(resumptions)} partitions",
        f"records    {_sum(one.read_at_source for one in resumptions)} read on east, "
        f"{_sum(one.read_on_target for one in resumptions)} on west, "
        f"{_sum(one.expected for one in resumptions)} were due there",
        f"skipped    {_sum(one.skipped for one in resumptions)}",
        f"repeated   {_sum(one.repeated for one in resumptions)}",
        f"audits     {len(played.failover.audits)} passed within apply",
        f"took       {shown.elapsed_s:.0f} s",
    ]
    put("\n".join(lines) + "\n")
    if wrong := problems(played.failover, resumptions, played.difference):
        raise UnsafeError("the failover was not exact:\n  " + "\n  ".join(wrong))


def _downtime(failover: Failover) -> float:
    return float(failover.figures["downtime_seconds"])


def _sum(numbers: Iterable[int]) -> str:
    return f"{sum(numbers):,}"


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"
