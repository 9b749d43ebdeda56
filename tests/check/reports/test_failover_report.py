"""`report failover` of changes of direction that the program's own steps have carried out, over clusters in memory.

The oracle is what lay in the logs when east was lost, and the rows that the steps have appended.
"""

from pathlib import Path
from typing import Any

import pytest

from ledger.changeover.plans import ChangeoverKind, StepName
from ledger.errors import UsageError
from ledger.reports.documents import Report, Table
from ledger.reports.failover import failover_report
from ledger.reports.writing import html, markdown
from tests.support.changed_ledgers import on_disk
from tests.support.changing_pairs import FAILOVER, GROUPS, ChangingPair
from tests.support.pages import Page


def table(report: Report, name: str) -> list[dict[str, Any]]:
    [found] = [one for one in report.tables if one.name == name]
    return rows_of(found)


def rows_of(one: Table) -> list[dict[str, Any]]:
    return [dict(zip(one.columns, row, strict=True)) for row in one.rows]


def test_a_failover_says_each_step_what_was_lost_and_why(tmp_path: Path, empty_ledger: Path) -> None:
    pair = ChangingPair()
    pair.forward.end_at_once()
    for _ in range(3):
        assert pair.produce("users", 0)
    pair.recorders.record_all()
    pair.lose_east(with_driver=False)
    plan_id = pair.plan(ChangeoverKind.FAILOVER, FAILOVER)
    operation_id = pair.apply(plan_id)
    period = on_disk(pair, tmp_path, empty_ledger)
    report = failover_report(period, operation_id)

    done = [row["step"] for row in table(report, "steps") if row["result"] == "done"]
    recorded = [row for row in pair.rows("operations", operation_id) if row["kind"] == "step_done"]
    assert len(done) == len(recorded)
    assert done[-1] == StepName.REPORT
    [lost] = table(report, "losses")
    assert (lost["partition"], lost["records"], lost["at least"]) == ("users partition 0", 3, 3)
    assert {row["group"] for row in table(report, "groups")} == set(GROUPS)
    assert [row["proof"] for row in table(report, "fences")] == ["unproven"]
    assert {row["result"] for row in table(report, "invariants")} == {"kept"}
    assert failover_report(period, plan_id) == report, "a plan's id is that of its last apply"

    page = Page.of(html(report))
    assert "script" not in page.tags
    assert "users partition 0" in page.text
    assert html(failover_report(period, operation_id)) == html(report)
    assert "| users partition 0 |" in markdown(report)
    with pytest.raises(UsageError, match=f"recorded: {operation_id} of plan {plan_id}"):
        failover_report(period, "nobody")
    pair.end()
