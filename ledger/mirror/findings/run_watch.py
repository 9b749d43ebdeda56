"""Tells in the ledger when what a run has beside its clusters needs attention, and when it does no more: the recorders
beside it, the configuration file that it was started with."""

from collections.abc import Callable, Mapping

from ledger.mirror.findings.finding_log import Finding, FindingName, Findings

RUN_FINDINGS = (FindingName.RECORDING_STOPPED, FindingName.CONFIGURATION_FILE_CHANGED)
Troubles = Callable[[], Mapping[str, str]]
"""By subject what is wrong with it; empty when nothing is."""


class RunWatch:
    """Checks once a round; costs nothing while nothing changes."""

    def __init__(self, findings: Findings, troubles: Mapping[FindingName, Troubles]) -> None:
        self._findings = findings
        self._troubles = troubles
        self._reported: Mapping[FindingName, frozenset[str]] | None = None

    def check(self) -> None:
        found = {name: troubles for name, ask in self._troubles.items() if (troubles := ask())}
        now = {name: frozenset(troubles) for name, troubles in found.items()}
        if self._reported == now:
            return
        self._reported = now
        self._findings.report(
            [
                Finding(
                    name=name, message="; ".join(f"{about}: {what}" for about, what in sorted(one.items()))
                )
                for name, one in found.items()
            ]
        )
