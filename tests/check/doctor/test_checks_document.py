"""`ledger/CHECKS.md` is the list of all checks, kept equal to the code; the README shows the verdicts."""

from pathlib import Path

import ledger
from ledger.doctor.checks import Check, Verdict
from tests.support.documents import definitions, section, table_rows

CHECKS = (Path(ledger.__file__).parent / "CHECKS.md").read_text(encoding="utf-8")


def as_stated(check: Check) -> tuple[str, dict[str, str]]:
    parts = {"Failed": check.fails, "Warning": check.warns}
    return f"({check.about}): {check.asks}", {label: part for label, part in parts.items() if part}


def test_every_check_is_stated_as_it_is() -> None:
    stated = definitions(section(CHECKS, "Checks"))
    assert list(stated) == list(Check)
    assert {name: (one.text.strip(), one.parts) for name, one in stated.items()} == {
        str(check): as_stated(check) for check in Check
    }


def test_every_verdict_is_stated() -> None:
    stated = table_rows(section(CHECKS, "Verdicts"))
    assert [row[0] for row in stated] == [f"`{verdict}`" for verdict in Verdict]


def test_a_check_asks_something_of_something() -> None:
    abouts = {"machine", "ledger", "cluster", "broker", "flow"}
    assert {check.about for check in Check} == abouts
    assert all("?" in check.asks for check in Check)
