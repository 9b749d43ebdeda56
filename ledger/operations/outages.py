"""Outages of a flow's clusters, from its open findings: what a report says first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.domain.words.time_words import duration, instant
from ledger.mirror.findings.finding_log import FindingName
from ledger.mirror.task.troubles import Side

_SIDES: Mapping[str, Side] = {
    FindingName.SOURCE_UNREACHABLE: Side.SOURCE,
    FindingName.TARGET_UNREACHABLE: Side.TARGET,
    FindingName.SOURCE_THROTTLED: Side.SOURCE,
    FindingName.TARGET_THROTTLED: Side.TARGET,
}
OUTAGE_FINDINGS = frozenset(_SIDES)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outage:
    """A cluster, or partitions of one topic of it, that do not answer, or hold back; for so many seconds so far."""

    finding: str
    side: str
    topic: str | None
    message: str
    since_ms: int
    seconds: float

    @property
    def words(self) -> str:
        """The message has what does not answer before its first colon, and why behind it."""
        what, colon, why = self.message.partition(": ")
        since = f"{instant(self.since_ms)}, {duration(self.seconds)} ago"
        return f"{self.side} {what} since {since}{colon}{why}"


def outages(finding_rows: Iterable[Row], *, at_ms: int) -> list[Outage]:
    """What the flow's driver sees, from the answer of `flow_findings`: whole clusters first, the longest first."""
    found = [
        Outage(
            row["finding"],
            str(_SIDES[row["finding"]]),
            row["source_topic"],
            row["message"],
            row["open_since_ms"],
            _seconds(row["open_since_ms"], at_ms),
        )
        for row in finding_rows
        if row["finding"] in OUTAGE_FINDINGS
    ]
    return sorted(found, key=lambda outage: (outage.topic is not None, outage.since_ms))


def recorders_outages(reach_rows: Iterable[Row], sides: Mapping[str, Side], *, at_ms: int) -> list[Outage]:
    """What recorders of the flow's clusters (alias to side) see, from the answer of `cluster_reach`."""
    return [
        Outage(
            row["finding"],
            str(sides[row["cluster"]]),
            row["topic"],
            row["message"],
            row["since_ms"],
            _seconds(row["since_ms"], at_ms),
        )
        for row in reach_rows
        if row["finding"] == FindingName.CLUSTER_UNREACHABLE
        and row["until_ms"] is None
        and row["cluster"] in sides
    ]


def _seconds(since_ms: int, at_ms: int) -> float:
    return max(0.0, (at_ms - since_ms) / 1000)
