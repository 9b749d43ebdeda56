"""A report as a file: HTML that stands alone, Markdown for a ticket, JSON for programs.

Names are of others: in no form are they read as markup, and attachments hold no cell that a spreadsheet computes.
"""

import base64
import re
from collections.abc import Callable, Mapping
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ledger.plain_text import csv_text, json_text
from ledger.reports.documents import UNKNOWN, Cell, OverTime, Plot, Report, Table, content
from ledger.reports.plots import svg
from ledger.words import instant, shown

_LONG = 28
"""Characters from which on a cell may be broken within a word: a hash, and names that people made so."""
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")
_COMPUTED = ("=", "+", "-", "@", "\t", "\r")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&])")


def html(report: Report) -> str:
    """One file without a reference to another: plots and attachments are inside."""
    return _written("report.html", report, is_html=True)


def markdown(report: Report) -> str:
    """The same without plots, of which it says the highest values; JSON has every row that is not printed."""
    return _written("report.md", report, is_html=False)


def json(report: Report) -> str:
    return json_text(content(report))


FORMATS: Mapping[str, Callable[[Report], str]] = {"html": html, "markdown": markdown, "json": json}


def csv(table: Table) -> str:
    """All rows of a table. A text that a spreadsheet would compute has an apostrophe in front of it."""
    return csv_text([table.columns, *(tuple(map(_uncomputed, row)) for row in table.rows)])


def _uncomputed(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_COMPUTED) else cell


def cell_text(cell: Cell) -> str:
    """As people read it: numbers with their thousands set apart."""
    if cell is None:
        return UNKNOWN
    if isinstance(cell, str):
        return shown(cell)
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.1f}" if abs(cell) >= 10 else f"{cell:.3g}"


def _printed(cell: Cell, most: int) -> Cell:
    """What is printed of a cell: whoever gave a reason may have written a book."""
    return f"{cell[:most]} ..." if isinstance(cell, str) and len(cell) > most else cell


def _written(template: str, report: Report, *, is_html: bool) -> str:
    environment = Environment(
        autoescape=is_html, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    escaped: Callable[[Cell], str] = cell_text if is_html else _in_markdown
    environment.filters.update(
        cell=escaped,
        printed=_printed,
        attachment=_attachment,
        svg=lambda plot: Markup(svg(plot)),  # of escaped texts
        highest=_highest,
        is_instant=lambda cell: isinstance(cell, str) and _INSTANT.fullmatch(cell) is not None,
        is_long=lambda cell: isinstance(cell, str) and len(cell) > _LONG,
        is_number=lambda cell: isinstance(cell, int | float),
    )
    text = files(__package__).joinpath(template).read_text(encoding="utf-8")
    return environment.from_string(text).render(report=report)


def _attachment(table: Table) -> str:
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(csv(table).encode()).decode()


def _in_markdown(cell: Cell) -> str:
    return _MARKDOWN.sub(r"\\\1", cell_text(cell))


def _highest(plot: Plot) -> list[str]:
    """What of a plot can be said in words."""
    if not isinstance(plot, OverTime):
        return []
    return [
        f"{one.name}: {UNKNOWN}"
        if (top := one.highest) is None
        else f"{one.name}: at most {cell_text(top[1])} {plot.unit}, at {instant(top[0])}"
        for one in plot.series
    ]
