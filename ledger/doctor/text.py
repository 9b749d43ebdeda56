"""What an examination found, as text for people and for programs."""

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ledger.doctor.checks import Verdict
from ledger.doctor.results import CheckResult, sentence
from ledger.plain_text import csv_text, json_text
from ledger.words import shown

_WORST_FIRST = tuple(Verdict)
_INDENT = " " * (max(map(len, Verdict)) + 2)
_COMMAND = "kafka-acls.sh "


def summary(results: Sequence[CheckResult], printed: Sequence[CheckResult]) -> str:
    """`48 checks: 2 failed, 0 unknown, 19 unknown because of them, ...; 20 rows are not shown`."""
    counts = Counter(result.verdict for result in results)
    counted = {verdict: f"{counts[verdict]} {verdict}" for verdict in Verdict}
    if not_made := sum(len(result.not_made) for result in results):
        counted[Verdict.UNKNOWN] += f", {not_made} unknown because of them"
    hidden = len(results) - len(printed)
    is_one = "row is" if hidden == 1 else "rows are"
    rest = f"; {hidden} {is_one} not shown" if hidden else ""
    return f"{len(results) + not_made} checks: {', '.join(counted.values())}{rest}"


def render_text(results: Sequence[CheckResult], width: int) -> str:
    """Worst first: the verdict, about what, and under it in as many lines as it takes what was measured and what to do.

    A command to be copied is one line, however long.
    """
    ordered = sorted(results, key=lambda result: _WORST_FIRST.index(result.verdict))
    return "".join(f"{line}\n" for result in ordered for line in _lines(result, width))


def render_json(results: Sequence[CheckResult]) -> str:
    """An array of objects; `not_made` lists subject and check of what was not made because of a row."""
    rows = [{**_cells(result), "not_made": _not_made(result)} for result in results]
    return json_text(rows)


def render_csv(results: Sequence[CheckResult]) -> str:
    """A header and a line per row; `not_made` is a JSON array, empty for none."""
    lines: list[list[object]] = [["subject", "check", "verdict", "measured", "advice", "not_made"]]
    for result in results:
        not_made = json.dumps(_not_made(result), ensure_ascii=False) if result.not_made else None
        lines.append([*_cells(result).values(), not_made])
    return csv_text(lines)


RENDERERS: Mapping[str, Callable[[Sequence[CheckResult]], str]] = {"json": render_json, "csv": render_csv}
"""The forms for programs."""


def _cells(result: CheckResult) -> dict[str, str | None]:
    return {
        "subject": result.subject,
        "check": result.check.value,
        "verdict": result.verdict.value,
        "measured": result.measured,
        "advice": result.advice,
    }


def _not_made(result: CheckResult) -> list[dict[str, str]]:
    return [{"subject": one.subject, "check": one.check.value} for one in result.not_made]


def _lines(result: CheckResult, width: int) -> Iterator[str]:
    head = f"{result.verdict:<{len(_INDENT)}}{shown(result.subject)}: {result.check}"
    yield head
    yield from _folded(shown(result.measured), width)
    if result.not_made:
        yield from _folded(shown(f"{sentence(result.not_made)} because of it"), width)
    if result.advice is not None:
        yield from _advice(shown(result.advice), width)


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
