"""Outages of a flow's clusters, from its open findings: what a report says first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.domain.time_words import duration, instant
from ledger.mirror.findings import FindingName
from ledger.mirror.troubles import Side

_SIDES: Mapping[str, Side] = {
    FindingName.SOURCE_UNREACHABLE: Side.SOURCE,
    FindingName.TARGET_UNREACHABLE: Side.TARGET,
    FindingName.SOURCE_THROTTLED: Side.SOURCE,
    FindingName.TARGET_THROTTLED: Side.TARGET,
}
OUTAGE_FINDINGS = frozenset(_SIDES)


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


def outages(finding_rows: Iterable[Mapping[str, Any]], *, at_ms: int) -> list[Outage]:
    """From the answer of `flow_findings`, as of a time: whole clusters first, the longest first."""
    found = [
        Outage(
            row["finding"],
            str(_SIDES[row["finding"]]),
            row["source_topic"],
            row["message"],
            row["open_since_ms"],
            max(0.0, (at_ms - row["open_since_ms"]) / 1000),
        )
        for row in finding_rows
        if row["finding"] in OUTAGE_FINDINGS
    ]
    return sorted(found, key=lambda outage: (outage.topic is not None, outage.since_ms))
