"""The table of reports on other mirrors names tests that exist."""

import re

from tests.support.checkout import CHECKOUT

_TEST = re.compile(r"`(test_\w+)`")
_DEFINED = re.compile(r"^def (test_\w+)", re.MULTILINE)


def test_every_report_has_a_test_that_exists() -> None:
    text = (CHECKOUT / "ledger" / "REPORTS.md").read_text(encoding="utf-8")
    defined = {
        name
        for file in (CHECKOUT / "tests").rglob("test_*.py")
        for name in _DEFINED.findall(file.read_text(encoding="utf-8"))
    }
    reports = text.split("\n- ")[1:]
    assert len(reports) > 15
    assert [report for report in reports if not _TEST.findall(report.partition("Tests:")[2])] == []
    assert {name for name in _TEST.findall(text)} <= defined
