"""What a recorder says of its cluster while that does not answer: a finding of its own, raised once, cleared once."""

from ledger.domain.operations.content import OperationContent
from ledger.domain.operations.finding_events import FindingCleared
from ledger.domain.reach import Failing, Instant, failed_again
from ledger.mirror.findings.finding_log import Finding, FindingName, raised
from ledger.ports.ledger import OperationLog

_NAME = FindingName.CLUSTER_UNREACHABLE


class OutageRecord:
    """Of one cluster in one epoch; `is_open`: an earlier epoch has raised the finding and not cleared it."""

    def __init__(self, cluster: str, operations: OperationLog, *, is_open: bool) -> None:
        self._cluster = cluster
        self._operations = operations
        self._is_open = is_open
        self._failing: Failing | None = None

    def failed(self, reason: str, *, began: Instant, now: Instant) -> None:
        """A read that began then has failed by now; records it once that is sure."""
        self._failing = failed_again(self._failing, reason, began=began, at_ms=now.at_ms)
        if not self._is_open and self._failing.is_sure(now.monotonic):
            finding = Finding(
                name=_NAME,
                message=f"{self._cluster} does not answer: {reason}",
                cluster=self._cluster,
                since_ms=self._failing.since_ms,
            )
            self._record(raised(finding))
            self._is_open = True

    def answered(self) -> None:
        self._failing = None
        if self._is_open:
            self._record(FindingCleared.of_key((_NAME, None, None)))
            self._is_open = False

    def _record(self, content: OperationContent) -> None:
        self._operations.record(content, flow=None, reason=str(_NAME))
