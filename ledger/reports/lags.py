"""How far a flow was behind over a period, and when it could not be known or did not copy."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ledger.facts.operations import FINDING_KINDS, STOP_KINDS, FindingRaised, OperationKind, PartitionStopped
from ledger.facts.tables import Row
from ledger.mirror.assignment import OF_DIRECTION
from ledger.reports.documents import Span
from ledger.reports.periods import Period, partition_words

_MOST_CELLS = 1_000_000
"""Partitions times instants that are asked for at most for a plot."""
_MOST_INSTANTS = 240


class LagOverTime:
    """Of one flow over the period: by instant records and seconds behind, and partitions of which nobody knows."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.instants = tuple(row["at_ms"] for row in rows)
        self.records = tuple(row["records"] for row in rows)
        self.seconds = tuple(None if row["lag_ms"] is None else row["lag_ms"] / 1000 for row in rows)
        self.unknown = tuple(row["unknown"] for row in rows)

    @classmethod
    def of(cls, period: Period, flow: str) -> "LagOverTime":
        partitions = len(period.ledger.query("flow_positions", flow=flow))
        instants = max(2, min(_MOST_INSTANTS, _MOST_CELLS // max(partitions, 1)))
        step_ms = max(-(-period.length_ms // (instants - 1)), 1)
        found = period.ledger.query(
            "lag_over_time",
            flow=flow,
            first_ms=period.until_ms - (period.length_ms // step_ms) * step_ms,
            last_ms=period.until_ms,
            step_ms=step_ms,
        )
        goes = period.goes(flow)
        return cls([_since_it_goes(row, goes) for row in _by_instant(found.table)])

    @property
    def worst(self) -> tuple[int, int, int] | None:
        """Instant, records behind, partitions that were unknown then; None: at no instant anything was known."""
        known = [
            (at_ms, records, unknown)
            for at_ms, records, unknown in zip(self.instants, self.records, self.unknown, strict=True)
            if records is not None
        ]
        return max(known, key=lambda one: one[1], default=None)

    @property
    def longest(self) -> float | None:
        return max((one for one in self.seconds if one is not None), default=None)

    @property
    def unknown_share(self) -> float | None:
        """Of the instants those at which of some partition nobody knows how far it was."""
        return sum(map(bool, self.unknown)) / len(self.unknown) if self.unknown else None


def _since_it_goes(row: Row, goes: Sequence[tuple[int, int]]) -> Row:
    """Count a wait from when this direction began to hold, and none while the other one does."""
    since_ms = [row["at_ms"] - begins for begins, ends in goes if begins <= row["at_ms"] < ends]
    return row if row["lag_ms"] is None else {**row, "lag_ms": min(row["lag_ms"], *(since_ms or [0]))}


def _by_instant(rows: pa.Table) -> list[Row]:
    """Of all partitions together; nothing is known where of none anything is."""
    rows = rows.filter(pc.not_equal(rows["status"], "gone"))
    unknown = pc.cast(pc.is_null(rows["lag_records"]), pa.int64())
    waited = pc.if_else(pc.equal(rows["lag_records"], 0), 0, rows["lag_ms"])
    found = pa.table(
        [rows["at_ms"], rows["lag_records"], waited, unknown], ["at_ms", "lag_records", "lag_ms", "unknown"]
    )
    summed = found.group_by("at_ms").aggregate(
        [("lag_records", "sum"), ("lag_ms", "max"), ("unknown", "sum")]
    )
    return [
        {
            "at_ms": row["at_ms"],
            "records": row["lag_records_sum"],
            "lag_ms": row["lag_ms_max"],
            "unknown": row["unknown_sum"],
        }
        for row in summed.sort_by("at_ms").to_pylist()
    ]


def outages_of(period: Period, flow: str) -> list[Span]:
    """Silences of the driver, findings about clusters, and stopped partitions, within the period; but what a change of
    direction asks for is none."""
    silences = [
        Span(span.name, max(span.start_ms, begins), min(span.end_ms, ends))
        for span in period.silences(flow)
        for begins, ends in period.goes(flow)
        if max(span.start_ms, begins) < min(span.end_ms, ends)
    ]
    spans = [*silences, *_held(period, flow)]
    return sorted(
        (
            Span(span.name, max(span.start_ms, period.since_ms), min(span.end_ms, period.until_ms))
            for span in spans
            if span.end_ms >= period.since_ms
        ),
        key=lambda span: (span.start_ms, span.end_ms, span.name),
    )


def _held(period: Period, flow: str) -> Iterator[Span]:
    """Findings and stops of a flow from when they are recorded until they are cleared, or the period ends."""
    begun: dict[tuple[Any, ...], tuple[str, int]] = {}
    key: tuple[Any, ...]
    for row in period.of_kinds(*FINDING_KINDS, *STOP_KINDS):
        if row["flow"] != flow:
            continue
        content = json.loads(row["content"])
        if row["kind"] in STOP_KINDS:
            key = ("stop", content["topic_id"], content["partition"])
        else:
            key = ("finding", content["finding"], content["topic"], content["partition"])
        if row["kind"] in (OperationKind.PARTITION_RESUMED, OperationKind.FINDING_CLEARED):
            if key in begun:
                yield Span(*begun.pop(key), row["recorded_at_ms"])
        elif key not in begun and content.get("cause") not in OF_DIRECTION:
            begun[key] = (_said(row), _since(row))
    for name, since_ms in begun.values():
        yield Span(name, since_ms, period.until_ms)


def _said(row: Row) -> str:
    if row["kind"] == OperationKind.PARTITION_STOPPED:
        stop = PartitionStopped.of_row(row)
        return f"stopped: {partition_words(stop.topic, stop.partition)} ({stop.cause})"
    finding = FindingRaised.of_row(row)
    return f"{finding.finding}: {partition_words(finding.topic, finding.partition)}"


def _since(row: Row) -> int:
    raised = FindingRaised.of_row(row).since_ms if row["kind"] == OperationKind.FINDING_RAISED else None
    return int(row["recorded_at_ms"]) if raised is None else raised
