"""The report that a bundle has beside its rows."""

from collections.abc import Mapping

from ledger.answers.ledger import Ledger
from ledger.errors import PreconditionError, UsageError
from ledger.reports import writing
from ledger.reports.audit import audit_report
from ledger.reports.failover import failover_report
from ledger.reports.periods import Period


def reports_of(ledger: Ledger, operation: str | None, since_ms: int | None) -> Mapping[str, str]:
    """Files by name: of a change of direction its report, of anything else that of the period.

    Where no flow has run there is nothing to report, and no file.
    """
    try:
        if operation is not None:
            report = failover_report(Period.of(ledger, None), operation)
            return {"report.html": writing.html(report), "report.json": writing.json(report)}
    except (PreconditionError, UsageError):
        pass  # it is no change of direction
    try:
        report = audit_report(Period.of(ledger, since_ms))
    except PreconditionError:
        return {}
    return {"report.html": writing.html(report), "report.json": writing.json(report)}
