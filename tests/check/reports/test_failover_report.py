"""`report failover` of changes of direction that the program's own steps have carried out, over clusters in memory.

The oracle is what lay in the logs when east was lost, and the rows that the steps have appended.
"""

import getpass
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from ledger.answers.ledger import Ledger
from ledger.changeover.plans import ChangeoverKind, StepName
from ledger.changeover.verifying import verify_changeover
from ledger.config.mirror import ApprovalsConfig, Person
from ledger.context import Context
from ledger.errors import UnsafeError, UsageError
from ledger.reports.documents import Report
from ledger.reports.failover import failover_report
from ledger.reports.periods import Period
from ledger.reports.writing import html, markdown
from ledger.words import duration
from tests.support.changed_ledgers import on_disk
from tests.support.changing_pairs import FAILOVER, GROUPS, ChangingPair
from tests.support.ledger_rows import append
from tests.support.pages import Page
from tests.support.report_tables import rows_of


def table(report: Report, name: str) -> list[dict[str, Any]]:
    [found] = [one for one in report.tables if one.name == name]
    return rows_of(found)


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
    west = pair.config.cluster("west").model_copy(update={"mirror_principal": None})
    pair.config = pair.config.model_copy(
        update={
            "approvals": asking(key.public_key()),
            "clusters": {**pair.config.clusters, "west": west},
        }
    )
    taken = replace(FAILOVER, accepted=("no_commit",), accept_unproven_shut_out=True)
    plan_id = pair.plan(ChangeoverKind.FAILOVER, taken)
    with pytest.raises(UnsafeError, match="asks for 2 people, and ana stands behind it; nothing was done"):
        pair.apply(plan_id)
    pair.approve(plan_id, pem_of(key))
    decided_ms = pair.schedule.now_ms()
    operation_id = pair.apply(plan_id)
    started_ms = next(
        row["recorded_at_ms"]
        for row in pair.rows("operations", operation_id)
        if row["kind"] == "step_done" and json.loads(row["content"])["step"] == StepName.START_APPLICATIONS
    )
    with pair.outside.seen_by(pair.outside.process()):
        checks = verify_changeover(Context(pair.config), operation_id)
    period = on_disk(pair, tmp_path, empty_ledger)
    report = failover_report(period, operation_id)

    unproven = [row["step"] for row in table(report, "steps") if row["result"] == "done, unproven"]
    assert unproven == [StepName.STOP_PRODUCERS, StepName.FENCE, StepName.SHUT_OUT]
    done = [row["step"] for row in table(report, "steps") if row["result"].startswith("done")]
    recorded = [row for row in pair.rows("operations", operation_id) if row["kind"] == "step_done"]
    assert len(done) == len(recorded)
    assert done[-1] == StepName.REPORT
    accepted = {
        one.check: one.words.partition("; --accept ")[2] for one in checks if one.status == "accepted"
    }
    who = f"by {getpass.getuser()}: a drill"
    assert accepted == {"fence": f"unproven=it burns, {who}", "shut_out": f"mirror_not_shut_out, {who}"}
    assert {one.check: one.subject for one in checks if one.status == "unknown"} == {
        "source": "east",
        "late_write": "users",
    }
    [decided] = [one for one in report.sections if one.title == "What was decided beforehand"]
    assert decided.facts["accepted"] == "no_commit, unproven=it burns, mirror_not_shut_out"
    read_ms = max(
        row["read_at_ms"] for row in pair.ledger.rows("high_watermarks") if row["cluster"] == "east"
    )
    away, since = (duration((started_ms - from_ms) / 1000) for from_ms in (read_ms, decided_ms))
    assert report.sections[0].facts["downtime"] == (
        f"{away} since the source last answered, {since} of it since the decision"
    )
    [lost_words] = [one.text[1] for one in report.sections if one.title.startswith("What was lost")]
    assert lost_words == (
        "Of 3 partitions 2 had all that east had when it was read last. What came behind that is not known of any of "
        "them."
    )
    assert table(report, "alone") == []
    [handed_over] = [row["about"] for row in table(report, "recorded") if row["kind"] == "handed_over"]
    assert handed_over == "orders, users"
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
    ranges = [{"partition": 0, "extra_start": 3, "extra_end": 8}]
    found = {"cluster": "east", "cluster_id": "E", "topic": "users", "topic_id": "u", "policy": "keep_local"}
    content = json.dumps({**found, "ranges": ranges})
    decision = {"kind": "extras_decided", "content": content, "writer": "operator", "writer_epoch": 9_999}
    append(
        period.ledger.config.ledger.path,
        "operations",
        [{**planned, **decision, "recorded_at_ms": started_ms}],
    )
    alone = table(failover_report(Period.of(Ledger.open(period.ledger.config), None), operation_id), "alone")
    assert [(one["topic"], one["what becomes of it"], one["offsets"]) for one in alone] == [
        ("users", "keep_local", 5)
    ]
    pair.end()
