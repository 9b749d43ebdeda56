"""`report capacity`: how much was copied, how fast, what grows, and how much of the highest rate seen was needed."""

from collections.abc import Sequence

from ledger.clock import DAY_MS
from ledger.facts.tables import TABLES, Row
from ledger.reports.documents import Cell, OverTime, Report, Section, Series, Table
from ledger.reports.lags import LagOverTime
from ledger.reports.periods import Period, evidence, head
from ledger.words import duration, instant

_STEPS = 240
_LEAST_STEP_MS = 10_000
"""Rounds are seconds apart: a shorter step would be full or empty by chance."""
_MOST_PLOTTED = 4


def capacity_report(period: Period) -> Report:
    """Raises `PreconditionError` where no flow has run, and `UsageError` where facts of the period have left."""
    step_ms = max(-(-period.length_ms // _STEPS), _LEAST_STEP_MS)
    steps = period.asked(
        "copied_by_time.sql", since_ms=period.since_ms, until_ms=period.until_ms, step_ms=step_ms
    )
    topics = period.in_period("copied_by_topic.sql")
    return Report(
        kind="capacity",
        title="Capacity of the mirrors",
        about=f"How much was copied, how fast, and what grows: {period.words}.",
        facts=head(period),
        sections=(
            _rates(period, steps, step_ms),
            _topics(topics),
            _clusters(period),
            _ledger(period),
            evidence(period),
        ),
    )


def _rates(period: Period, steps: Sequence[Row], step_ms: int) -> Section:
    by_flow: dict[str, list[Row]] = {flow: [] for flow in period.flows}
    for row in steps:
        if row["flow"] in by_flow:
            by_flow[row["flow"]].append(row)
    rows = tuple(_flow_row(period, flow, found, step_ms) for flow, found in by_flow.items())
    drawn = sorted(by_flow, key=lambda flow: (-sum(row["bytes"] for row in by_flow[flow]), flow))[
        :_MOST_PLOTTED
    ]
    plots = tuple(
        OverTime(
            name=f"rate-{number}",
            caption=f"{flow}: megabytes copied per second",
            unit="MB/s",
            series=(Series("MB/s", _rate_points(period, by_flow[flow], step_ms)),),
        )
        for number, flow in enumerate(flow for flow in by_flow if flow in drawn)
    )
    return Section(
        title="Rates",
        text=(
            f"Rates are averages over steps of {duration(step_ms / 1000)}, by when the rows of a round were appended. "
            "The highest one that was seen is no limit: a mirror copies as fast as there is something to copy.",
            "A mean rate near the highest one, while the target was behind, says that the mirror was at its limit; how "
            "long it took to be level again after an outage is in the audit report.",
        ),
        plots=plots,
        tables=(
            Table(
                name="rates",
                caption="Flows",
                columns=(
                    *("flow", "records", "MB", "MB per day", "mean MB/s"),
                    *("highest MB/s", "when", "highest records/s", "longest wait (s)", "re-encoded batches"),
                ),
                rows=rows,
                empty="none",
            ),
        ),
    )


def _flow_row(period: Period, flow: str, steps: Sequence[Row], step_ms: int) -> tuple[Cell, ...]:
    records, size = sum(row["records"] for row in steps), sum(row["bytes"] for row in steps)
    fastest = max(steps, key=lambda row: row["bytes"], default=None)
    raw, encoded = (sum(row[name] for row in steps) for name in ("raw_batches", "record_path_batches"))
    return (
        flow,
        records,
        round(size / 1e6, 1),
        round(size / 1e6 * DAY_MS / period.length_ms, 1),
        round(size / 1e3 / period.length_ms, 3),
        "" if fastest is None else round(fastest["bytes"] / 1e3 / step_ms, 3),
        "nothing was copied" if fastest is None else instant(fastest["begin_ms"]),
        "" if not steps else round(max(row["records"] for row in steps) * 1000 / step_ms, 1),
        LagOverTime.of(period, flow).longest,
        "" if not raw + encoded else f"{encoded / (raw + encoded):.1%}",
    )


def _rate_points(period: Period, steps: Sequence[Row], step_ms: int) -> tuple[tuple[int, float | None], ...]:
    """In a step without a row nothing was copied."""
    size = {row["begin_ms"]: row["bytes"] for row in steps}
    begins = range(period.since_ms, period.until_ms + 1, step_ms)
    return tuple((begin_ms, round(size.get(begin_ms, 0) / 1e3 / step_ms, 6)) for begin_ms in begins)


def _topics(rows: Sequence[Row]) -> Section:
    return Section(
        title="Topics",
        text=(
            "Batches are copied as the bytes they are; those that a filter, a cleaner or an old format has touched, "
            "and those of topics with LogAppendTime, are opened, and written otherwise.",
        ),
        tables=(
            Table(
                name="topics",
                caption="Those with most bytes first",
                columns=(
                    *("flow", "topic", "partitions", "records"),
                    *("MB", "bytes per record", "re-encoded batches"),
                ),
                rows=tuple(
                    (
                        row["flow"],
                        row["source_topic"],
                        row["partitions"],
                        row["records"],
                        round(row["bytes"] / 1e6, 1),
                        round(row["bytes"] / row["records"], 1) if row["records"] else "",
                        row["record_path_batches"],
                    )
                    for row in rows
                ),
                empty="nothing was copied in the period",
                most=40,
            ),
        ),
    )


def _clusters(period: Period) -> Section:
    """Topics and partitions that recorders saw, at the end of the period."""
    last: dict[tuple[str, str], Row] = {}
    for row in period.ledger.snapshot.rows("topics", []):
        last[row["cluster"], row["topic_id"]] = row
    there = [row for row in last.values() if row["event"] != "deleted"]
    clusters = sorted({row["cluster"] for row in there})
    return Section(
        title="Clusters",
        tables=(
            Table(
                name="clusters",
                caption="Topics that were recorded there, at the end of the period",
                columns=("cluster", "topics", "partitions", "replicas of partitions"),
                rows=tuple(
                    (
                        cluster,
                        sum(row["cluster"] == cluster for row in there),
                        sum(row["partitions"] for row in there if row["cluster"] == cluster),
                        sum(
                            row["partitions"] * row["replication_factor"]
                            for row in there
                            if row["cluster"] == cluster
                        ),
                    )
                    for cluster in clusters
                ),
                empty="no recorder has recorded topics",
            ),
        ),
    )


def _ledger(period: Period) -> Section:
    counts = tuple((table.name, period.ledger.snapshot.count(table.name)) for table in TABLES)
    return Section(
        title="The ledger",
        text=(
            "Rows up to the cut. How many bytes they take depends on when files were merged, so it is not said here.",
        ),
        tables=(
            Table(
                name="ledger",
                caption="Rows by table",
                columns=("table", "rows"),
                rows=counts,
                empty="none",
            ),
        ),
    )
