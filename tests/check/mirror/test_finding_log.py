"""Findings: each change is recorded once, also across drivers."""

import json

from ledger.facts.findings import EXPLAINED, Finding, FindingName, Findings
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.operation_logs import operators

ABOUT = (FindingName.RECOMPRESSED, FindingName.LOG_APPEND_TIME)
RECOMPRESSED = Finding(name=FindingName.RECOMPRESSED, topic="t", message="compression.type is gzip")
STAMPED = Finding(name=FindingName.LOG_APPEND_TIME, topic="t", message="stamped")


class Flow:
    """One ledger and the findings of one driver after another."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.operations = operators(self.ledger, Schedule())

    def driver(self, about: tuple[FindingName, ...] = ABOUT, flow: str = "f") -> Findings:
        return Findings(flow, about, self.operations, MemoryLedgerState(self.ledger))

    def recorded(self) -> list[tuple[str, str]]:
        rows = self.ledger.at(self.ledger.latest()).relation("operations").to_pylist()
        return [(row["kind"], json.loads(row["content"])["finding"]) for row in rows]


def test_each_change_is_recorded_once() -> None:
    flow = Flow()
    findings = flow.driver()
    for now in ([], [RECOMPRESSED], [RECOMPRESSED], [RECOMPRESSED, STAMPED], [STAMPED], [STAMPED], []):
        findings.report(now)
    assert flow.recorded() == [
        ("finding_raised", "recompressed"),
        ("finding_raised", "log_append_time"),
        ("finding_cleared", "recompressed"),
        ("finding_cleared", "log_append_time"),
    ]


def test_the_row_says_what_is_so_and_what_to_do() -> None:
    flow = Flow()
    flow.driver().report([RECOMPRESSED])
    [row] = flow.ledger.at(flow.ledger.latest()).relation("operations").to_pylist()
    assert (row["flow"], row["reason"]) == ("f", "recompressed")
    assert json.loads(row["content"]) == {
        "finding": "recompressed",
        "topic": "t",
        "partition": None,
        "message": "compression.type is gzip",
        "next": EXPLAINED[FindingName.RECOMPRESSED].next,
    }


def test_a_later_driver_goes_on_from_the_ledger() -> None:
    flow = Flow()
    flow.driver().report([RECOMPRESSED])
    later = flow.driver()
    later.report([RECOMPRESSED])
    assert flow.recorded() == [("finding_raised", "recompressed")]
    later.report([])
    assert flow.recorded()[1:] == [("finding_cleared", "recompressed")]
    flow.driver().report([])
    assert len(flow.recorded()) == 2


def test_topics_and_partitions_are_told_apart() -> None:
    flow = Flow()
    findings = flow.driver()
    at = [Finding(name=FindingName.RECOMPRESSED, topic="t", partition=p, message="m") for p in (0, 1)]
    findings.report(at)
    findings.report(at[1:])
    assert [kind for kind, _ in flow.recorded()] == ["finding_raised", "finding_raised", "finding_cleared"]


def test_a_subject_leaves_the_findings_of_others_and_of_other_flows_alone() -> None:
    flow = Flow()
    flow.driver().report([RECOMPRESSED])
    flow.driver(about=(FindingName.LOG_APPEND_TIME,)).report([])
    flow.driver(flow="g").report([])
    assert flow.recorded() == [("finding_raised", "recompressed")]
