"""`report failover` of changes of direction that the program's own steps have carried out, over clusters in memory.

The oracle is what lay in the logs when east was lost, and the rows that the steps have appended.
"""

import getpass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from ledger.answers.ledger import Ledger
from ledger.changeover.plans import ChangeoverKind, StepName
from ledger.config.mirror import ApprovalsConfig, Person
from ledger.errors import UnsafeError, UsageError
from ledger.reports.documents import Report, Table
from ledger.reports.failover import failover_report
from ledger.reports.periods import Period
from ledger.reports.writing import html, markdown
from tests.support.changed_ledgers import on_disk
from tests.support.changing_pairs import FAILOVER, GROUPS, ChangingPair
from tests.support.ledger_rows import append
from tests.support.pages import Page


def table(report: Report, name: str) -> list[dict[str, Any]]:
    [found] = [one for one in report.tables if one.name == name]
    return rows_of(found)


def rows_of(one: Table) -> list[dict[str, Any]]:
    return [dict(zip(one.columns, row, strict=True)) for row in one.rows]


def asking(bob: ed25519.Ed25519PublicKey) -> ApprovalsConfig:
    """Two people: ana, by whose account all of this runs, and bob, who signs."""
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    keys = {"ana": ed25519.Ed25519PrivateKey.generate().public_key(), "bob": bob}
    accounts = {"ana": getpass.getuser(), "bob": None}
    people = {
        name: Person(key=key.public_bytes(*form).decode(), operator=accounts[name])
        for name, key in keys.items()
    }
    return ApprovalsConfig(plan=2, people=people)


def pem_of(key: ed25519.Ed25519PrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, *form).decode()


def test_a_failover_says_each_step_what_was_lost_and_why(tmp_path: Path, empty_ledger: Path) -> None:
    pair = ChangingPair()
    pair.forward.end_at_once()
    for _ in range(3):
        assert pair.produce("users", 0)
    pair.recorders.record_all()
    pair.lose_east(with_driver=False)
    key = ed25519.Ed25519PrivateKey.generate()
    pair.config = pair.config.model_copy(update={"approvals": asking(key.public_key())})
    plan_id = pair.plan(ChangeoverKind.FAILOVER, FAILOVER)
    with pytest.raises(UnsafeError, match="asks for 2 people, and ana stands behind it; nothing was done"):
        pair.apply(plan_id)
    pair.approve(plan_id, pem_of(key))
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
    facts = report.sections[0].facts
    assert str(facts["planned by"]).startswith(f"{getpass.getuser()}, ")
    assert str(facts["approved by bob"]).endswith("read")
    assert (facts["people behind it"], facts["carried out by"]) == (
        "ana, bob, of 2 that were asked for",
        getpass.getuser(),
    )
    assert failover_report(period, plan_id) == report, "a plan's id is that of its last apply"

    page = Page.of(html(report))
    assert "script" not in page.tags
    assert "users partition 0" in page.text
    assert html(failover_report(period, operation_id)) == html(report)
    assert "| users partition 0 |" in markdown(report)
    with pytest.raises(UsageError, match=f"recorded: {operation_id} of plan {plan_id}"):
        failover_report(period, "nobody")
    [planned] = [row for row in pair.ledger.rows("operations") if row["kind"] == "plan"]
    later = {
        "operator": "eve",
        "operation_id": "planned again",
        "writer_epoch": planned["writer_epoch"] + 1_000,
    }
    append(period.ledger.config.ledger.path, "operations", [{**planned, **later}])
    again = failover_report(Period.of(Ledger.open(period.ledger.config), None), operation_id)
    assert again.sections[0].facts["planned by"] == facts["planned by"], (
        "by a clock that is behind, and never read"
    )
    pair.end()
