"""What a failover would lose, from the answer of `failover_loss`. What is unknown is never counted as nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Row = Mapping[str, Any]


class LossStatus(StrEnum):
    """Statuses of the query `failover_loss`, in its order."""

    UNKNOWN = "unknown"  # the ends were never read, or nothing is recorded of the partition
    COMPLETE = "complete"  # all that is known of the source is at the target
    LAGGING = "lagging"


@dataclass(frozen=True, slots=True)
class LossForecast:
    """Of some partitions together; `records` and `estimate` None: nobody can tell of all of them.

    `records`: known to be at the source and not at the target. `estimate`: what has come there since, by its rate.
    `milliseconds`: since when the first of them was not covered, up to the instant that was asked about; 0 where all is
    complete. `unknown`: of how many partitions nothing is known.
    """

    partitions: int
    unknown: int
    records: int | None
    estimate: int | None
    milliseconds: int | None


def forecast(rows: Iterable[Row], *, fresh_since_ms: int | None = None) -> LossForecast:
    """Of rows of `failover_loss`; ends that were read before `fresh_since_ms` tell nothing (None: all count)."""
    found = list(rows)
    unknown = [row for row in found if _is_unknown(row, fresh_since_ms)]
    if unknown or not found:
        return LossForecast(len(found), len(unknown), None, None, None)
    estimates = [row["extra_estimate"] for row in found]
    spans = [_span_ms(row) for row in found]
    return LossForecast(
        partitions=len(found),
        unknown=0,
        records=sum(row["records_at_risk"] for row in found),
        estimate=None if None in estimates else sum(estimates),
        milliseconds=None if None in spans else max(span for span in spans if span is not None),
    )


def _is_unknown(row: Row, fresh_since_ms: int | None) -> bool:
    is_old = fresh_since_ms is not None and (row["ends_read_at_ms"] or 0) < fresh_since_ms
    return is_old or row["status"] == LossStatus.UNKNOWN


def _span_ms(row: Row) -> int | None:
    if row["status"] == LossStatus.COMPLETE:
        return 0
    at_risk, age = row["at_risk_ms"], row["age_ms"]
    return None if at_risk is None or age is None else at_risk + age
