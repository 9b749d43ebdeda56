"""The report that a bundle has beside its rows."""

import json
from collections.abc import Mapping

from ledger.answers.ledger import Ledger
from ledger.changeover.approving import signed_files
from ledger.errors import PreconditionError, UsageError
from ledger.facts.operations import OperationKind
from ledger.facts.tables import OPERATIONS
from ledger.reports import writing
from ledger.reports.audit import audit_report
from ledger.reports.failover import failover_report
from ledger.reports.periods import Period
from ledger.store.snapshots import DeltaSnapshot


def approvals_in(at: DeltaSnapshot, since_ms: int | None) -> Mapping[str, bytes]:
    """Files by name: what openssl verifies the approvals by of all plans that were approved or carried out since."""
    kinds = (OperationKind.PLAN, OperationKind.PLAN_APPROVED, OperationKind.APPLY_CLAIMED)
    rows = at.rows(OPERATIONS.name, [("kind", "in", kinds)])
    plans = {
        json.loads(row["content"])["plan_id"]
        for row in rows
        if row["kind"] != OperationKind.PLAN and row["recorded_at_ms"] >= (since_ms or 0)
    }
    return dict(signed_files(rows, plans))


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
