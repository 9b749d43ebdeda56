"""How flows did over time: lag by the hour, what a loss of the source would have cost day by day, losses, findings."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ledger.answers.lag import LagStatus
from ledger.answers.ledger import Ledger
from ledger.clock import DAY_MS, HOUR_MS
from ledger.errors import PreconditionError
from ledger.facts.operations import FINDING_KINDS, FindingCleared, FindingRaised
from ledger.facts.tables import OPERATIONS, Row
from ledger.roles import fresh_seconds
from ledger.serving import drawing
from ledger.serving.drawing import Curve, Point, curve
from ledger.words import duration, instant, shown

LAG_HOURS = 6
RPO_DAYS = 14
_POINTS = 72
_MOST_ROWS = 200_000
"""Of so many partitions times instants at most: of many partitions there are fewer instants."""
_MOST_EVENTS = 100


@dataclass(frozen=True, slots=True)
class FlowLag:
    """Of a flow at instants. `records`: how many were not copied, unknown where the ends had not been read lately.

    Had the source been lost then: `known_lost`, records that are known to have been there and not copied; `reach_s`,
    how far back what was lost would have reached, with the time for which nobody had read the ends.
    """

    records: tuple[Point, ...] = ()
    known_lost: tuple[Point, ...] = ()
    reach_s: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """A finding that was raised or cleared, as people read it."""

    at: str
    flow: str
    what: str
    message: str


@dataclass(frozen=True, slots=True)
class History:
    """Of all flows by name, and events of all, the latest first."""

    days: Mapping[str, FlowLag]
    losses: Mapping[str, tuple[Row, ...]]
    events: tuple[Event, ...]


# Reading ------------------------------------------------------------------------------------------


def read_lags(ledger: Ledger) -> Mapping[str, FlowLag]:
    """Of each flow that ran, over the last hours."""
    return {flow: found for flow, found in _lags(ledger, LAG_HOURS * HOUR_MS)}


def read_history(ledger: Ledger) -> History:
    """Of each flow that ran, over the last days."""
    flows = list(ledger.config.flows)
    return History(
        days=dict(_lags(ledger, RPO_DAYS * DAY_MS)),
        losses={flow: _losses(ledger, flow) for flow in flows if _has_run(ledger, flow)},
        events=tuple(_events(ledger)),
    )


def _has_run(ledger: Ledger, flow: str) -> bool:
    try:
        ledger.filled_in(ledger.queries()["flow_losses"], {"flow": flow})
    except PreconditionError:
        return False
    return True


def _lags(ledger: Ledger, span_ms: int) -> Iterator[tuple[str, FlowLag]]:
    now_ms = ledger.opened_at_ms
    left = ledger.snapshot.last_left
    first_ms = max(now_ms - span_ms, ledger.snapshot.began_at_ms, 0 if left is None else left.until_ms)
    if first_ms >= now_ms:
        return
    for flow in ledger.config.flows:
        if not _has_run(ledger, flow):
            continue
        partitions = max(1, len(ledger.query("flow_positions", flow=flow)))
        points = max(2, min(_POINTS, _MOST_ROWS // partitions))
        step_ms = max(1_000, (now_ms - first_ms) // points)
        rows = ledger.query(
            "lag_over_time", flow=flow, first_ms=now_ms - step_ms * points, last_ms=now_ms, step_ms=step_ms
        ).table.to_pylist()
        yield flow, flow_lag(rows, fresh_ms=int(fresh_seconds(ledger.config.flow(flow)) * 1000))


def flow_lag(rows: Iterable[Row], *, fresh_ms: int) -> FlowLag:
    """Of a whole flow, from rows of `lag_over_time` on a grid; ends that were read longer ago tell no lag.

    An instant is unknown where a partition is: but for one that had never been read by then, beside others that were.
    """
    instants: dict[int, list[Row]] = defaultdict(list)
    first_known: dict[tuple[str, int], int] = {}
    for row in sorted(rows, key=lambda one: int(one["at_ms"])):
        if row["status"] == LagStatus.GONE:
            continue
        instants[row["at_ms"]].append(row)
        if row["lag_records"] is not None:
            first_known.setdefault((row["source_topic_id"], row["source_partition"]), row["at_ms"])
    records, lost, reach = [], [], []
    for at_ms, found in instants.items():
        begun = [
            row
            for row in found
            if first_known.get((row["source_topic_id"], row["source_partition"]), at_ms + 1) <= at_ms
        ]
        is_known = bool(begun) and all(row["lag_records"] is not None for row in begun)
        count = float(sum(row["lag_records"] for row in begun)) if is_known else None
        is_fresh = all((row["age_ms"] or 0) <= fresh_ms for row in begun)
        records.append(Point(at_ms, count if is_fresh else None))
        lost.append(Point(at_ms, count))
        reach.append(Point(at_ms, _reach_s(begun) if is_known else None))
    return FlowLag(tuple(records), tuple(lost), tuple(reach))


def _reach_s(rows: Sequence[Row]) -> float | None:
    """How far back a loss of the source would have reached: what was not copied then, and not seen; None: unknown."""
    waits = [row["lag_ms"] for row in rows if row["lag_records"]]
    if any(one is None for one in waits):
        return None
    unseen_ms = max((row["age_ms"] or 0 for row in rows), default=0)
    return (max(waits, default=0) + unseen_ms) / 1000


def _losses(ledger: Ledger, flow: str) -> tuple[Row, ...]:
    rows = ledger.query("flow_losses", flow=flow).table.to_pylist()
    rows.sort(key=lambda row: -int(row["recorded_at_ms"]))
    return tuple(rows[:_MOST_EVENTS])


def _events(ledger: Ledger) -> Iterator[Event]:
    rows = ledger.snapshot.rows(OPERATIONS.name, [("kind", "in", FINDING_KINDS)])
    rows.sort(key=lambda row: -int(row["recorded_at_ms"]))
    for row in rows[:_MOST_EVENTS]:
        finding, message = _said(row)
        at, what = instant(row["recorded_at_ms"]), shown(finding.replace("_", " "))
        yield Event(at, row["flow"] or "recorder", what, shown(message))


def _said(row: Row) -> tuple[str, str]:
    if row["kind"] == FindingRaised.kind:
        raised = FindingRaised.of_row(row)
        return raised.finding, raised.message
    return FindingCleared.of_row(row).finding, "over"


# Pages --------------------------------------------------------------------------------------------


def lag_curves(found: FlowLag) -> tuple[Curve, ...]:
    """Records and time of the last hours."""
    drawn = (
        curve("Lag in records", found.records, drawing.records),
        curve("How far back a loss of the source would reach", found.reach_s, duration),
    )
    return tuple(one for one in drawn if one is not None)


@dataclass(frozen=True, slots=True)
class Day:
    """A day (UTC) of a flow, at its worst; unknown is a word."""

    day: str
    records: str
    reach: str
    unknown: str


@dataclass(frozen=True, slots=True)
class LossLine:
    """A row of `flow_losses` as people read it."""

    at: str
    where: str
    kind: str
    offsets: str
    status: str


@dataclass(frozen=True, slots=True)
class FlowHistory:
    """A flow over days."""

    flow: str
    curves: tuple[Curve, ...]
    days: tuple[Day, ...]
    losses: tuple[LossLine, ...]


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """All flows that ran, and what was found."""

    flows: tuple[FlowHistory, ...] = ()
    events: tuple[Event, ...] = ()


def history_page(history: History) -> HistoryPage:
    """What was read, in words and pictures."""
    return HistoryPage(
        tuple(
            FlowHistory(
                flow,
                lag_curves(history.days.get(flow, FlowLag())),
                tuple(_days(history.days.get(flow, FlowLag()))),
                tuple(map(_loss, rows)),
            )
            for flow, rows in history.losses.items()
        ),
        history.events,
    )


def _days(found: FlowLag) -> Iterator[Day]:
    by_day: dict[str, list[tuple[Point, Point]]] = defaultdict(list)
    for lost, reach in zip(found.known_lost, found.reach_s, strict=True):
        by_day[instant(lost.at_ms)[:10]].append((lost, reach))
    for day, points in sorted(by_day.items(), reverse=True):
        counts = [one.value for one, _ in points if one.value is not None]
        times = [one.value for _, one in points if one.value is not None]
        missing = len(points) - len(times)
        yield Day(
            day,
            records=drawing.records(max(counts)) if counts else "unknown",
            reach=duration(max(times)) if times else "unknown",
            unknown=f"{missing} of {len(points)}" if missing else "none",
        )


def _loss(row: Row) -> LossLine:
    return LossLine(
        at=instant(row["recorded_at_ms"]),
        where=shown(f"{row['source_topic']} {row['source_partition']}"),
        kind=f"{row['kind']}{'' if row['cause'] is None else ', ' + str(row['cause']).replace('_', ' ')}",
        offsets=_range(row),
        status=str(row["status"]),
    )


def _range(row: Row) -> str:
    if row["source_end"] > row["source_start"]:
        return f"source {row['source_start']:,} to {row['source_end'] - 1:,}"
    return f"target {row['target_start']:,} to {max(row['target_start'], row['target_end'] - 1):,}"
