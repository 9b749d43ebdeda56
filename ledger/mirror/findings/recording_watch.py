"""Tells in the ledger when the recorders beside a flow do not get on, and when they do again."""

from collections.abc import Callable, Mapping

from ledger.mirror.findings.finding_log import Finding, FindingName, Findings

RECORDING_FINDINGS = (FindingName.RECORDING_STOPPED,)
Troubles = Callable[[], Mapping[str, str]]
"""By recorder what keeps it from recording; empty when nothing does."""


class RecordingWatch:
    """Checks once a round; costs nothing while nothing changes."""

    def __init__(self, findings: Findings, troubles: Troubles) -> None:
        self._findings = findings
        self._troubles = troubles
        self._reported: frozenset[str] | None = None

    def check(self) -> None:
        troubles = self._troubles()
        if self._reported == frozenset(troubles):
            return
        self._reported = frozenset(troubles)
        message = "; ".join(f"{writer}: {reason}" for writer, reason in sorted(troubles.items()))
        name = FindingName.RECORDING_STOPPED
        self._findings.report([Finding(name=name, message=message)] if troubles else [])
