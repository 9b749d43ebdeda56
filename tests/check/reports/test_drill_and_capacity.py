"""`report drill` and `report capacity`: figures are those of the rows that tests have written."""

import json
from typing import Any

from ledger.facts.tables import TABLES
from tests.check.reports.conftest import at
from tests.support.operated import FLOW, Operated

_DRILL = {
    "from_cluster": "east",
    "to_cluster": "west",
    "cut": "v2.x",
    "problems": ["'billing' at orders partition 0, place 7: missing"],
    "records_lost": None,
    "records_at_least": None,
    "seconds_lost": None,
    "apply_seconds": 14.2,
    "commit_seconds": None,
    "read_seconds": 0.3,
    "removed": [],
}


def told(flow: Operated, *words: str) -> dict[str, dict[str, Any]]:
    """Tables and plots by name."""
    done = flow.command("report", *words, "--format", "json")
    assert done.code == 0, done.err
    sections = json.loads(done.out)["sections"]
    return {part["name"]: part for section in sections for part in (*section["tables"], *section["plots"])}


def drilled(flow: Operated, verdict: str, lost: int | None) -> str:
    groups = {"billing": {"same": 2, "missing": 1}, "audit": {"same": 4}}
    content = {
        **_DRILL,
        "verdict": verdict,
        "groups": groups,
        "stuck": {"no_map": ["late"]},
        "records_at_most": lost,
    }
    return flow.operation("drilled", content, reason="monthly")


def test_drills_are_counted_and_what_is_unknown_stays_so(flow: Operated) -> None:
    drilled(flow, "passed", 19)
    last = drilled(flow, "failed", None)
    found = told(flow, "drill", "--since", str(at(3_601)))
    first, second = found["drills"]["rows"]
    assert (first["verdict"], first["lost, at most"], first["places"], first["why"]) == (
        "passed",
        19,
        7,
        "monthly",
    )
    assert (second["verdict"], second["lost, at most"]) == ("failed", None)
    assert [point[1] for point in found["losses"]["series"][0]["points"]] == [19, None]
    assert {row["result"]: row["places"] for row in found["places"]["rows"]} == {"same": 6, "missing": 1}
    assert found["stuck"]["rows"] == [{"why": "no_map", "groups": 1, "which": "late"}]
    page = flow.command("report", "drill", "--since", str(at(3_601)))
    assert last in page.out
    assert "unknown" in page.out


def test_where_no_drill_was_made_there_is_nothing_to_report(flow: Operated) -> None:
    done = flow.command("report", "drill")
    assert (done.code, done.out) == (5, "")
    assert "no drill was made" in done.err


def test_rates_are_of_the_steps_in_which_rows_were_appended(flow: Operated) -> None:
    flow.copied(
        {("heavy", 0): 1_000},
        at_ms=at(1_800),
        bytes=3_000_000,
        raw_batches=9,
        record_path_batches=3,
        round=70,
    )
    found = told(flow, "capacity", "--since", str(at(1_500)), "--until", str(at(3_600)))
    [row] = found["rates"]["rows"]
    assert (row["records"], row["MB"], row["MB per day"]) == (1_000, 3.0, round(3 * 86_400 / 2_100, 1))
    assert (row["highest MB/s"], row["re-encoded batches"]) == (0.3, "25.0%"), "in a step of ten seconds"
    points = found["rate-0"]["series"][0]["points"]
    assert [value for _, value in points if value] == [0.3]
    assert [(row["topic"], row["bytes per record"]) for row in found["topics"]["rows"]] == [
        ("heavy", 3_000.0)
    ]
    assert {row["table"] for row in found["ledger"]["rows"]} == {one.name for one in TABLES}
    assert row["flow"] == FLOW
