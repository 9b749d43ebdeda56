"""What an examination found, as text for people and for programs."""

import csv
import io
import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ledger.doctor.causes import sentence
from ledger.doctor.checks import Verdict
from ledger.doctor.findings import Finding
from ledger.reports.tables import shown

_WORST_FIRST = tuple(Verdict)
_INDENT = " " * (max(map(len, Verdict)) + 2)
_COMMAND = "kafka-acls.sh "


def summary(findings: Sequence[Finding], printed: Sequence[Finding]) -> str:
    """`48 checks: 2 failed, 0 unknown, 19 unknown because of them, ...; 20 rows are not shown`."""
    counts = Counter(finding.verdict for finding in findings)
    counted = {verdict: f"{counts[verdict]} {verdict}" for verdict in Verdict}
    if not_made := sum(len(finding.not_made) for finding in findings):
        counted[Verdict.UNKNOWN] += f", {not_made} unknown because of them"
    hidden = len(findings) - len(printed)
    is_one = "row is" if hidden == 1 else "rows are"
    rest = f"; {hidden} {is_one} not shown" if hidden else ""
    return f"{len(findings) + not_made} checks: {', '.join(counted.values())}{rest}"


def render_text(findings: Sequence[Finding], width: int) -> str:
    """Worst first: the verdict, about what, and under it in as many lines as it takes what was measured and what to do.

    A command to be copied is one line, however long.
    """
    ordered = sorted(findings, key=lambda finding: _WORST_FIRST.index(finding.verdict))
    return "".join(f"{line}\n" for finding in ordered for line in _lines(finding, width))


def render_json(findings: Sequence[Finding]) -> str:
    """An array of objects; `not_made` lists subject and check of what was not made because of a row."""
    rows = [{**_cells(finding), "not_made": _not_made(finding)} for finding in findings]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def render_csv(findings: Sequence[Finding]) -> str:
    """A header and a line per row; `not_made` is a JSON array, empty for none."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["subject", "check", "verdict", "measured", "advice", "not_made"])
    for finding in findings:
        not_made = json.dumps(_not_made(finding), ensure_ascii=False) if finding.not_made else None
        lines.writerow([*_cells(finding).values(), not_made])
    return text.getvalue()


RENDERERS: Mapping[str, Callable[[Sequence[Finding]], str]] = {"json": render_json, "csv": render_csv}
"""The forms for programs."""


def _cells(finding: Finding) -> dict[str, str | None]:
    return {
        "subject": finding.subject,
        "check": finding.check.value,
        "verdict": finding.verdict.value,
        "measured": finding.measured,
        "advice": finding.advice,
    }


def _not_made(finding: Finding) -> list[dict[str, str]]:
    return [{"subject": one.subject, "check": one.check.value} for one in finding.not_made]


def _lines(finding: Finding, width: int) -> Iterator[str]:
    head = f"{finding.verdict:<{len(_INDENT)}}{shown(finding.subject)}: {finding.check}"
    yield head
    yield from _folded(shown(finding.measured), width)
    if finding.not_made:
        yield from _folded(f"{sentence(finding.not_made)} because of it", width)
    if finding.advice is not None:
        yield from _advice(shown(finding.advice), width)


def _advice(advice: str, width: int) -> Iterator[str]:
    if advice.startswith(_COMMAND):
        yield f"{_INDENT}> {advice}"
    else:
        yield from _folded(f"> {advice}", width)


def _folded(text: str, width: int) -> list[str]:
    """Words are kept whole, so that an address or a path can be copied."""
    return textwrap.wrap(
        text,
        width=width,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT + ("  " if text.startswith("> ") else ""),
        break_long_words=False,
        break_on_hyphens=False,
    )
