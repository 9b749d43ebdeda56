"""`ledger/CHECKS.md` is the table of all checks, kept equal to the code; the README shows the verdicts."""

import re
from pathlib import Path

import ledger
from ledger.doctor.checks import Check, Verdict

CHECKS = (Path(ledger.__file__).parent / "CHECKS.md").read_text(encoding="utf-8")
NEVER = "-"


def stated(heading: str) -> list[tuple[str, ...]]:
    """Rows of the table under a heading, without its head."""
    section = CHECKS.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \|$", section, re.MULTILINE)
    return [tuple(cell.strip() for cell in row.split(" | ")) for row in rows[2:]]


def test_every_check_is_stated_as_it_is() -> None:
    assert stated("Checks") == [
        (f"`{check}`", check.about, check.asks, check.fails or NEVER, check.warns or NEVER) for check in Check
    ]


def test_every_verdict_is_stated() -> None:
    assert [row[0] for row in stated("Verdicts")] == [f"`{verdict}`" for verdict in Verdict]


def test_a_check_asks_something_of_something() -> None:
    abouts = {"machine", "ledger", "cluster", "broker", "flow"}
    assert {check.about for check in Check} == abouts
    assert all("?" in check.asks for check in Check)
