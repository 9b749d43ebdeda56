"""What of a source is not at the target, or would not be if it were lost now: the one estimate that there is of it.

Plans, applies, reports and `status` all have it from the answer of the query `failover_loss`, partition by partition.
It is a range. At least: what is known to be at the source, less what the target may hold of it that nobody recorded. At
most: all that is known to be there, and what the highest rate seen just before brings in the time that nobody saw the
source. Where no rate is known there is no upper end; what is unknown of one partition is unknown of all together;
unknown is not 0. What lies in between is never added to what is known.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from ledger.domain.objectives import Figure, Objective
from ledger.domain.offsets.cut_offsets import Cut
from ledger.domain.words.count_words import counted
from ledger.domain.words.time_words import duration, instant

Row = Mapping[str, Any]
UnrecordedCopies = Mapping[tuple[str, str, int], int]
"""By flow, source topic and partition: how much the target holds now behind what was recorded as copied, or may yet."""
ALL_OF_IT = 2**63 - 1
NOTHING_READ: UnrecordedCopies = MappingProxyType({})


class LossStatus(StrEnum):
    """Statuses of the query `failover_loss`, in its order."""

    UNKNOWN = "unknown"  # the ends were never read, or nothing is recorded of the partition
    COMPLETE = "complete"  # all that is known of the source is at the target
    LAGGING = "lagging"


def losses(
    rows: Iterable[Row], cut: Cut | None = None, unrecorded: UnrecordedCopies = NOTHING_READ
) -> list[dict[str, Any]]:
    """A row per partition, from the answer of `failover_loss`.

    `cut`: what it has read of a source that answered counts as well. `unrecorded`: what was read of the target now.
    """
    return [_loss(row, cut, unrecorded) for row in rows]


def _loss(row: Row, cut: Cut | None, unrecorded: UnrecordedCopies) -> dict[str, Any]:
    is_known = row["status"] != LossStatus.UNKNOWN
    known_end, behind_reading = row["known_end"], 0
    live_end = None if cut is None else _live_end(cut, row)
    if is_known and live_end is not None:
        behind_reading = max(live_end - known_end, 0)
        known_end += behind_reading
    copied_to = None if row["map_end"] is None else row["map_end"] + (row["settled_records"] or 0)
    at_risk_ms, level, since = row["at_risk_ms"], row["level_at_ms"], row["lost_since_ms"]
    records = row["records_at_risk"] + behind_reading if is_known else None
    estimate = 0 if live_end is not None else row["extra_estimate"]
    return {
        "flow": row["flow"],
        "source_topic": row["source_topic"],
        "source_topic_id": row["source_topic_id"],
        "partition": row["source_partition"],
        "copied_to": copied_to,
        "known_end": known_end,
        "settled": row["settled_records"],
        "records": records,
        "estimate": estimate,
        "at_least": None if records is None else _at_least(row, records, behind_reading, unrecorded),
        "at_most": None if records is None or estimate is None else records + estimate,
        "seconds": 0.0 if records == 0 else None if at_risk_ms is None else at_risk_ms / 1000,
        "seconds_bound": None if records in (0, None) else "at_most" if level is not None else "at_least",
        "precision_seconds": None if level is None or since is None else (since - level) / 1000,
        "read_at_ms": row["ends_read_at_ms"],
        "age_seconds": _seconds(row["age_ms"]),
        "unseen_seconds": 0.0 if live_end is not None else _seconds(row["unseen_ms"]),
        "rate_per_second": row["rate_per_second"],
    }


def _at_least(row: Row, records: int, behind_reading: int, unrecorded: UnrecordedCopies) -> int:
    """What the target holds now says more than what was read of it at some time."""
    place = (row["flow"], row["source_topic"], row["source_partition"])
    if place in unrecorded:
        return max(records - max(unrecorded[place] - (row["settled_records"] or 0), 0), 0)
    return int(row["loss_at_least"]) + behind_reading


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _live_end(cut: Cut, row: Row) -> int | None:
    """Up to where the cut has read this partition itself; None: it has not, or another incarnation."""
    pair = cut.pairs(row["flow"]).get((row["source_topic"], row["source_partition"]))
    side = None if pair is None else pair.source
    if side is None or not side.is_live or side.topic_id != row["source_topic_id"]:
        return None
    return side.high_watermark


def of_applications(row: Row, records: int) -> dict[str, Any]:
    """A row of which applications wrote so many records, as the source itself says; the others are nobody's loss."""
    exact = {"records": records, "at_least": records, "at_most": records}
    if records:
        return {**row, **exact}
    return {**row, **exact, "seconds": 0.0, "seconds_bound": None}


def loss_figures(found: Sequence[Row]) -> dict[str, Any]:
    """Of all together, and of each partition that is not known to be complete; None: unknown."""
    seconds = [row["seconds"] for row in found if row["records"] != 0]
    precisions = [row["precision_seconds"] for row in found if row["records"] != 0]
    read = [row["read_at_ms"] for row in found]
    rates = [row["rate_per_second"] for row in found]
    unseen = [row["unseen_seconds"] for row in found]
    return {
        "partitions": len(found),
        "records_lost": _sum(row["records"] for row in found),
        "records_estimated": _sum(row["estimate"] for row in found),
        "records_at_least": _sum(row["at_least"] for row in found),
        "records_at_most": _sum(row["at_most"] for row in found),
        "seconds_lost": None if None in seconds else max(seconds, default=0),
        "precision_seconds": None if None in precisions else max(precisions, default=0),
        "source_read_at_ms": None if None in read else min(read, default=None),
        "unseen_seconds": None if None in unseen else max(unseen, default=None),
        "records_per_second": _sum(rates),
        "partitions_without_rate": sum(rate is None for rate in rates),
        "losses": [dict(row) for row in found if row["records"] != 0],
    }


def _sum(numbers: Iterable[Any]) -> Any:
    found = list(numbers)
    return None if None in found else sum(found)


def loss_words(figures: Row) -> str:
    """What is lost, in a line: how much at least and at most, since when, and on what basis."""
    lost, more = figures["records_lost"], figures["records_estimated"]
    if lost is None:
        unknown = sum(row["records"] is None for row in figures["losses"])
        return f"what is not copied is unknown of {counted(unknown, 'partition')}"
    if lost == 0:
        words = f"all that is known of {counted(figures['partitions'], 'partition')} is copied"
        return f"{words}{_more_words(figures, more)}"
    words = f"{_range(figures, lost, more)} not copied"
    words += (
        ", for an unknown time" if figures["seconds_lost"] is None else f", the oldest for {_span(figures)}"
    )
    return f"{words}{_more_words(figures, more)}"


def _range(figures: Row, lost: int, more: int | None) -> str:
    """Forecasts of earlier versions of the program have no lower end of their own."""
    least = figures.get("records_at_least", lost)
    if more is None:
        return f"at least {counted(least, 'record')}"
    most = lost + more
    return counted(most, "record") if least == most else f"{least:,} to {counted(most, 'record')}"


def _more_words(figures: Row, more: int | None) -> str:
    """What of it came since the source was read last, and how that is known."""
    if more is None:
        without = figures.get("partitions_without_rate")
        basis = f", no rate is known of {counted(without, 'partition')}" if without else ""
        return f"; what was written after the last reading{_reading(figures)} is unknown{basis}"
    if not more:
        return f"; last reading{_reading(figures)}" if figures.get("unseen_seconds") else ""
    rate = figures.get("records_per_second")
    basis = "" if rate is None else f", at up to {_rate(rate)} a second as before"
    return f"; at most {counted(more, 'record')} came since the last reading{_reading(figures)}{basis}"


def _reading(figures: Row) -> str:
    at_ms, unseen = figures.get("source_read_at_ms"), figures.get("unseen_seconds")
    if at_ms is None:
        return ""
    return f" ({instant(at_ms)}{'' if unseen is None else f', {duration(unseen)} unseen'})"


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"


def loss_objectives(found: Sequence[Row], *, of: str, fresh_seconds: float) -> Iterator[Figure]:
    """What `[objectives]` allows of a loss: its upper end, and its time up to now.

    Where nobody saw the source for longer than `fresh_seconds` before it was lost, a rate of before says nothing: only
    the lower end counts, and the objective is not known to be met.
    """
    figures = loss_figures(found)
    unseen, most = figures["unseen_seconds"], figures["records_at_most"]
    is_open = most is None or unseen is None or unseen > fresh_seconds
    least = figures["records_at_least"] or None
    yield Figure(Objective.MAX_LOSS_RECORDS, least if is_open else most, of, is_at_least=is_open)
    lost = [row for row in found if row["records"] != 0]
    spans = [_until_now(row) for row in lost]
    seconds = None if None in spans else max((span for span in spans if span is not None), default=0.0)
    is_bounded = not is_open and bool(found)
    is_at_least = not is_bounded or any(row["seconds_bound"] == "at_least" for row in lost)
    yield Figure(
        Objective.MAX_LOSS_SECONDS, seconds if is_bounded else seconds or None, of, is_at_least=is_at_least
    )


def _until_now(row: Row) -> float | None:
    """Of a plan as of an earlier cut up to when the ends were read: no later instant was asked about."""
    return None if row["seconds"] is None else row["seconds"] + (row["age_seconds"] or 0.0)


def _span(figures: Row) -> str:
    bounds = {row["seconds_bound"] for row in figures["losses"]}
    bound = "at least" if "at_least" in bounds else "at most"
    precision = figures["precision_seconds"]
    exact = "" if not precision else f" (to {duration(precision)})"
    return f"{bound} {duration(figures['seconds_lost'])}{exact}"
