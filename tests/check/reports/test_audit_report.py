"""`report audit`: figures are those that the ledger was written with, in each form, and the same bytes for a cut."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger.reports.documents import ROWS
from tests.check.reports.conftest import at
from tests.support.checkout import CHECKOUT
from tests.support.histories import examples
from tests.support.operated import FLOW, Operated
from tests.support.pages import Page

pytestmark = pytest.mark.long

AUDIT = ("report", "audit")
UNTIL = ("--until", str(at(3_600)))


def told(flow: Operated, *options: str) -> dict[str, Any]:
    done = flow.command(*AUDIT, *UNTIL, "--format", "json", *options)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """Where the first test that needs the report of the ledger as it was written leaves it to the others."""
    return {}


@pytest.fixture
def report(flow: Operated, made: dict[str, Any]) -> dict[str, Any]:
    if not made:
        made.update(told(flow))
    return made


def table(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    [rows] = [
        one["rows"] for section in report["sections"] for one in section["tables"] if one["name"] == name
    ]
    return list(rows)


def points(report: dict[str, Any], name: str) -> dict[int, Any]:
    [plot] = [one for section in report["sections"] for one in section["plots"] if one["name"] == name]
    return dict(plot["series"][0]["points"])


# Figures ------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_rows(report: dict[str, Any]) -> None:
    [row] = table(report, "flows")
    assert (row["flow"], row["records copied"], row["offsets lost"]) == (FLOW, 110, 32)
    assert row["most records behind"] == 60, "160 were there, 100 were copied, until 30 were lost"
    causes = {row["what became of them"]: row["source offsets"] for row in table(report, "causes")}
    assert causes == {
        "copied to the target": 110,
        "lost: deleted at the source before it was copied": 30,
        "lost: an operator said to continue behind it": 2,
    }
    assert [row["offsets that count as lost"] for row in table(report, "losses")] == [30, 2]
    assert all(row["result"] == "kept" for row in table(report, "invariants"))


def test_what_is_not_known_is_a_gap_in_the_line(report: dict[str, Any]) -> None:
    behind = points(report, "records-0")
    assert {value for at_ms, value in behind.items() if at_ms < at(20)} == {None}
    assert {value for at_ms, value in behind.items() if at(620) < at_ms < at(1_190)} == {60}
    assert {value for at_ms, value in behind.items() if at_ms > at(1_220)} == {60}, "as it was read last"


def test_a_driver_that_recorded_nothing_is_an_outage(report: dict[str, Any]) -> None:
    outages = [(row["what"], row["for"]) for row in table(report, "outages")]
    assert ("driver recorded nothing", "19 min 50 s") in outages
    assert ("driver recorded nothing", "39 min 50 s") in outages


def test_a_stop_lasts_until_it_is_resumed_or_the_period_ends(flow: Operated) -> None:
    of_topic = {"topic": "orders", "topic_id": "id-of-orders", "partition": 0}
    stop = {**of_topic, "cause": "foreign_write", "message": "m", "next": "n"}
    row = {"writer": f"flow:{FLOW}", "writer_epoch": 1, "flow": FLOW, "operator": f"flow:{FLOW}"}
    for seconds, kind, content in (
        (100, "partition_stopped", stop),
        (160, "partition_resumed", of_topic),
        (3_540, "partition_stopped", stop),
    ):
        flow.append(
            "operations",
            {**row, "operation_id": kind, "kind": kind, "content": json.dumps(content)},
            at_ms=at(seconds),
        )
    stops = [row for row in table(told(flow), "outages") if row["what"].startswith("stopped")]
    assert [row["for"] for row in stops] == ["1 min", "1 min"]
    assert stops[0]["what"] == "stopped: orders partition 0 (foreign_write)"


TURNS = {"cluster": "west", "cluster_id": "W", "former": "east", "former_id": "E", "topics": None}


def asked(of: Operated, kind: str, content: object, seconds: int, **more: Any) -> None:
    row = {
        "operation_id": kind,
        "kind": kind,
        "operator": "ann",
        "flow": None,
        "content": json.dumps(content),
    }
    of.append("operations", {**row, **more}, at_ms=at(seconds))


def test_while_the_other_direction_holds_nothing_waits_and_nothing_is_out(flow: Operated) -> None:
    of_topic = {"topic": "orders", "topic_id": "id-of-orders", "partition": 0}
    stop = {**of_topic, "cause": "promoted", "message": "m", "next": "n"}
    asked(flow, "promoted", TURNS, 700)
    asked(flow, "partition_stopped", stop, 701, flow=FLOW, writer=f"flow:{FLOW}")
    asked(flow, "demoted", TURNS, 3_000)
    report = told(flow)
    waited = points(report, "seconds-0")
    assert {value for at_ms, value in waited.items() if at(710) < at_ms < at(2_990)} == {0}
    assert 580 <= max(value for at_ms, value in waited.items() if at_ms > at(3_010)) <= 600, "from then on"
    assert [(row["what"], row["for"]) for row in table(report, "outages")] == [
        ("driver recorded nothing", "11 min 30 s"),
        ("driver recorded nothing", "10 min"),
    ]


def test_what_was_left_by_decision_is_in_the_summary(flow: Operated) -> None:
    alone = {"cluster": "east", "cluster_id": "E", "topic": "orders", "topic_id": "id-of-orders"}
    for seconds, policy, start, end, of_flow in (
        (100, "keep_local", 200, 205, None),
        (110, "salvage", 205, 212, None),
        (120, "replicate", 212, 230, None),
        (130, "keep_local", 230, 231, FLOW),
    ):
        ranges = [{"partition": 0, "extra_start": start, "extra_end": end}]
        content = {**alone, "policy": policy, "ranges": ranges}
        asked(flow, "extras_decided", content, seconds, flow=of_flow)
    [words] = [one for one in told(flow)["sections"][0]["text"] if "By decision" in one]
    assert words == "By decision 12 offsets stay at one cluster alone; of these 7 were copied to side topics."


def test_what_was_salvaged_once_is_no_flow_that_is_behind(flow: Operated) -> None:
    row = {"writer": f"flow:{FLOW}.salvaged", "writer_epoch": 1, "round": 1, "flow": f"{FLOW}.salvaged"}
    flow.append("writers", {**row, "event": "claimed", "host": "elsewhere:1:2"}, at_ms=at(100))
    report = told(flow)
    assert [row["flow"] for row in table(report, "flows")] == [FLOW]
    assert {row["flow"] for row in table(report, "outages")} == {FLOW}


def test_a_period_leaves_out_what_was_recorded_outside_it(flow: Operated) -> None:
    report = told(flow, "--since", str(at(1_205)))
    assert [row["source offsets"] for row in table(report, "causes")] == [2]
    [row] = table(report, "flows")
    assert (row["records copied"], row["offsets lost"]) == (0, 2)


def test_who_asked_and_why(flow: Operated) -> None:
    assert (
        flow.command("pause", FLOW, "--topic", "orders", "--reason", "broker move", "--ticket", "OPS-7").code
        == 0
    )
    done = flow.command(*AUDIT, "--format", "json")
    [row] = table(json.loads(done.out), "operators")
    assert (row["what"], row["about"], row["why"]) == ("pause", "orders", "broker move; OPS-7")


# Forms --------------------------------------------------------------------------------------------


def test_a_page_stands_alone_and_reads_no_name_as_markup(flow: Operated) -> None:
    done = flow.command(*AUDIT, *UNTIL)
    page = Page.of(done.out)
    assert page.tags & {"script", "img", "link", "iframe", "object", "base"} == set()
    assert page.handlers == []
    assert page.references
    assert all(one.startswith("data:text/csv") for one in page.references)
    styles = "".join(re.findall(r"<style[^>]*>(.*?)</style>", done.out, re.DOTALL))
    assert "@import" not in styles
    assert "url(" not in styles
    assert "@media print" in styles
    assert "<img src=http://evil/x onerror=alert(1)>" in page.text
    assert "\x1b" not in done.out
    assert "Generated with" not in done.out, "that comment says the day on which it was drawn"
    assert page.attachments["losses.csv"][1][1].startswith("orders"), "the greater loss comes first"


def test_markdown_keeps_names_in_their_cells(flow: Operated) -> None:
    done = flow.command(*AUDIT, *UNTIL, "--format", "markdown")
    [line] = [line for line in done.out.splitlines() if "evil" in line and "skipped" in line]
    assert re.sub(r"\\.", "", line).count("|") == 10
    assert "\\<img" in line
    assert "\\[a\\](http" in line


def test_a_page_has_few_rows_of_many_and_all_of_them_attached_and_a_spreadsheet_computes_no_cell(
    flow: Operated,
) -> None:
    assert flow.command("pause", FLOW, "--topic", "orders", "--reason", "=cmd|' /C calc'!A0").code == 0
    rows = [_lost(flow, number) for number in range(3_000)]
    flow.append("offset_syncs", *rows, at_ms=at(3_590))
    page = Page.of(flow.command(*AUDIT).out)
    [header, row] = page.attachments["operators.csv"]
    assert dict(zip(header, row, strict=True))["why"] == "'=cmd|' /C calc'!A0"
    assert len(page.attachments["losses.csv"]) == 1 + 2 + 3_000
    assert f"{ROWS} of 3,002 rows are printed" in page.text
    assert len(page.cells) < 300, "twenty pages have room for twice as many rows"


def _lost(flow: Operated, partition: int) -> Any:
    return {**flow.lost_row("wide", partition, 0, 5), "writer_epoch": 1, "round": 90}


# The same bytes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", examples(check=["html"], soak=["html", "markdown", "json"]))
def test_one_cut_gives_the_same_bytes_in_any_process(flow: Operated, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"made.{form}"
    command = [sys.executable, "-m", "ledger.cli.main", "--config", flow.config.file, *AUDIT]
    environment = {**os.environ, "PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo"}
    subprocess.run(
        [*command, "--format", form, "--file", str(file)], cwd=CHECKOUT, env=environment, check=True
    )
    cut = json.loads(flow.command(*AUDIT, "--format", "json").out)["sections"][-1]["facts"]["cut"]
    flow.copied({("later", 0): 7})
    again = flow.command(*AUDIT, "--format", form, "--until", cut)
    made = file.read_bytes()
    assert again.out.encode() == made, (
        "the cut that it names gives it again, here and whatever was appended since"
    )


# Bad input ----------------------------------------------------------------------------------------


def test_what_cannot_be_reported_is_refused(flow: Operated, tmp_path: Path) -> None:
    for options, words in (
        (("--since", "yesterday"), "--since takes a time"),
        (("--since", str(at(3_601)), *UNTIL), "ends after it begins"),
        (("--until", "2020-01-01T00:00:00Z"), "ledger"),
    ):
        done = flow.command(*AUDIT, *options)
        assert (done.code, done.out) == (2, "")
        assert words in done.err
    done = flow.command(*AUDIT, "--file", str(tmp_path / "nowhere" / "a.html"))
    assert done.code == 1
    assert "cannot be written" in done.err


def test_without_the_extra_nothing_is_read(flow: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.cli.answers.report.find_spec", lambda name: None if name == "pygal" else name)
    done = flow.command(*AUDIT)
    assert (done.code, done.out) == (2, "")
    assert "report needs pygal, which `pip install 'mirror-ledger[report]'` brings" in done.err
