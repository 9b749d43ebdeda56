"""What a report consists of, whatever form it is written in: sections of sentences, tables and plots.

Nothing in it is of the moment at which it is made: times are those of the ledger, so that one cut gives one text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = str | int | float | None
"""Of a table: None is what nobody knows, an empty text what does not apply."""
UNKNOWN = "unknown"
ROWS = 20
"""How many rows of a table are printed at most; all are in its attachment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under a header; the first `most` are printed, all are attached as CSV. `name`: that of the attachment.

    `most_characters`: of a cell, as it is printed; the attachment has all of it.

    `empty`: what is said where there is no row.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    empty: str
    most: int = ROWS
    most_characters: int = 160

    @property
    def printed(self) -> tuple[tuple[Cell, ...], ...]:
        return self.rows[: self.most]

    @property
    def left(self) -> int:
        """How many rows are attached and not printed."""
        return len(self.rows) - len(self.printed)


@dataclass(frozen=True, slots=True)
class Series:
    """Points (milliseconds since the epoch, value) in the order of time; a value None is unknown, and a gap."""

    name: str
    points: tuple[tuple[int, float | None], ...]

    @property
    def highest(self) -> tuple[int, float] | None:
        """The first of the highest points; None: nothing is known."""
        known = [(at_ms, value) for at_ms, value in self.points if value is not None]
        return max(known, key=lambda point: point[1], default=None)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time of which something is to be seen."""

    name: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """Values over time, of one unit, with stretches shaded behind them."""

    name: str
    caption: str
    unit: str
    series: tuple[Series, ...]
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What was done one after the other, each from when to when; `start_ms`: what times are counted from."""

    name: str
    caption: str
    start_ms: int
    spans: tuple[Span, ...]


Plot = OverTime | Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, what is said below it, and what shows it."""

    title: str
    text: tuple[str, ...] = ()
    facts: Mapping[str, Cell] = field(default_factory=dict)
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`kind`: the command's word. `about`: what it is of, in a line. `facts`: what names it and its rows."""

    kind: str
    title: str
    about: str
    facts: Mapping[str, Cell]
    sections: tuple[Section, ...]

    @property
    def tables(self) -> Sequence[Table]:
        return [table for section in self.sections for table in section.tables]


def content(report: Report) -> dict[str, Any]:
    """The same for programs: every row and every point."""
    return {
        "kind": report.kind,
        "title": report.title,
        "about": report.about,
        "facts": dict(report.facts),
        "sections": [
            {
                "title": section.title,
                "text": list(section.text),
                "facts": dict(section.facts),
                "plots": [_plot(plot) for plot in section.plots],
                "tables": [
                    {
                        "name": table.name,
                        "caption": table.caption,
                        "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
                    }
                    for table in section.tables
                ],
            }
            for section in report.sections
        ],
    }


def _plot(plot: Plot) -> dict[str, Any]:
    spans = [{"name": one.name, "start_ms": one.start_ms, "end_ms": one.end_ms} for one in plot.spans]
    found = {"name": plot.name, "caption": plot.caption, "spans": spans}
    if isinstance(plot, Timeline):
        return found
    series = [{"name": one.name, "points": [list(point) for point in one.points]} for one in plot.series]
    return {**found, "unit": plot.unit, "series": series}
