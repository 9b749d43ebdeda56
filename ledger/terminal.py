"""Tables for people, and the one gate to the terminal."""

import io
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, Self

import pyarrow as pa
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledger.plain_text import column_values
from ledger.words import instant, shown, shown_lines

# Terminal -----------------------------------------------------------------------------------------
# The gate to rich: everything that a terminal is drawn with passes `as_text`.
#
# A text may hold names of others: a group, a topic, a host, a message of a broker, the output of a hook.
# rich would read square brackets of a str as markup, and hand escapes on to the terminal.


def as_text(words: str) -> Text:
    """The text as it is, brackets too; what is not printable is escaped, line ends are kept."""
    return Text(shown_lines(words))


class StatusLine:
    """The last line of a terminal, which shows what is under way; nothing where there is no terminal.

    `file` None: stderr.
    """

    def __init__(self, file: IO[str] | None = None, *, is_terminal: bool | None = None) -> None:
        self._console = Console(file=sys.stderr if file is None else file, force_terminal=is_terminal)
        self._status = self._console.status(as_text(""))

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    def update(self, words: str) -> None:
        """Words on one line."""
        self._status.update(as_text(shown(words)))

    def start(self) -> None:
        self._status.start()

    def stop(self) -> None:
        """Take the line away."""
        self._status.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()


def columns_as_text(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, are_numbers: Sequence[bool], width: int
) -> str:
    """A table within a width, long values folded; columns of numbers end at one place."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for header, is_number in zip(headers, are_numbers, strict=True):
        table.add_column(as_text(header), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(as_text, row))
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


# Tables -------------------------------------------------------------------------------------------
# Answers as tables for people: times as they read them, within a width where one is given, and no row cut.
#
# What does not fit is made to, in this order: what is the same in all rows is said once above the table;
# names of columns are folded; long values are folded; where that would leave columns too narrow to read,
# each row becomes a paragraph. Nothing is left out: a column without any value is named.


NARROWEST = 80
_WIDEST = 10_000
_NULL = "-"
_EMPTY = '""'
_BETWEEN = 2
_NARROW_HEADER = 8
_HELD_TOGETHER = "\u00a0"
"""Stands for a blank at which no line is to end; none is in a text that is shown."""
_READABLE = 12
"""To how few characters a long value is folded at most."""
_INSTANT = re.compile(r"(^|_)(at|since|until|timestamp)_ms$")


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as it is shown; `is_void`: without a value in any row."""

    header: str
    cells: tuple[str, ...]
    is_number: bool
    is_void: bool

    @property
    def value_width(self) -> int:
        return max(map(cell_len, self.cells), default=0)

    @property
    def width(self) -> int:
        return max(self.value_width, *map(cell_len, self.header.split("\n")))


def render_table(answer: pa.Table, width: int | None = None) -> str:
    """Columns under their names, a line for each row; within a `width`, in the form that fits.

    Instants (`*_at_ms`, `*_since_ms`, `*_until_ms`) are shown as times in UTC, other `*_ms` are durations and shown in
    seconds: their columns lose the unit, or have `_s`.
    """
    columns = [_column(field, column_values(answer, index)) for index, field in enumerate(answer.schema)]
    if width is None:
        return _printed(columns, _WIDEST)
    room = max(width, NARROWEST)
    if _width(columns) <= room:
        return _printed(columns, room)
    if answer.num_rows == 0:
        return "no rows\n"
    if answer.num_rows == 1:
        return _listed(columns, room)
    return _fitted(columns, room)


# Cells -----------------------------------------------------------------------------------------


def _column(field: pa.Field, values: Sequence[Any]) -> _Column:
    header = shown(field.name)
    shape: Callable[[Any], str] = _plain
    is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    if pa.types.is_integer(field.type) and _INSTANT.search(field.name):
        header, shape, is_number = header.removesuffix("_ms"), instant, False
    elif is_number and header.endswith("_ms"):
        header, shape = f"{header.removesuffix('_ms')}_s", _seconds
    cells = tuple(_NULL if value is None else shape(value) for value in values)
    return _Column(header, cells, is_number, is_void=all(value is None for value in values))


def _plain(value: object) -> str:
    return shown(str(value)) or _EMPTY


def _seconds(duration_ms: float) -> str:
    return f"{duration_ms / 1000:,.3f}"


# Forms -----------------------------------------------------------------------------------------


def _fitted(columns: Sequence[_Column], room: int) -> str:
    alike = [column for column in columns if len(set(column.cells)) == 1]
    varied = [column for column in columns if column not in alike]
    caption = _caption(alike, room)
    if not varied:
        return caption + f"{len(columns[0].cells)} rows, all alike\n"
    if _width(varied) <= room:
        return caption + _printed(varied, room)
    narrow = [replace(column, header=_folded_header(column)) for column in varied]
    if _width(narrow, at_most=_READABLE) <= room:
        return caption + _printed(narrow, room)
    paragraphs = (", ".join(_pair(column, row) for column in varied) for row in range(len(columns[0].cells)))
    return caption + "\n" + "\n".join(f"{_wrapped(paragraph, room)}\n" for paragraph in paragraphs)


def _caption(alike: Sequence[_Column], room: int) -> str:
    said = [_pair(column, 0) for column in alike if not column.is_void]
    void = [column.header for column in alike if column.is_void]
    lines = []
    if said:
        lines.append(_wrapped(f"in all rows: {', '.join(said)}", room))
    if void:
        lines.append(_wrapped(f"without a value in any row: {', '.join(void)}", room))
    return "".join(f"{line}\n" for line in lines)


def _listed(columns: Sequence[_Column], room: int) -> str:
    """One row, a line for each column."""
    width = max(cell_len(column.header) for column in columns)
    lines = [
        _wrapped(f"{column.header:<{width}}  {column.cells[0]}", room, indent=width + 2) for column in columns
    ]
    return "".join(f"{line}\n" for line in lines)


def _pair(column: _Column, row: int) -> str:
    """Short ones stay on a line; a sentence is folded where its words end."""
    pair = f"{column.header} {column.cells[row]}"
    return pair.replace(" ", _HELD_TOGETHER) if cell_len(pair) <= NARROWEST // 2 else pair


def _wrapped(text: str, room: int, indent: int = 2) -> str:
    filled = textwrap.fill(text, room, subsequent_indent=" " * indent, break_on_hyphens=False)
    return filled.replace(_HELD_TOGETHER, " ")


def _folded_header(column: _Column) -> str:
    """The name in lines as wide as the values, or as its longest word."""
    words = [f"{word}_" for word in column.header.split("_")]
    words[-1] = words[-1].removesuffix("_")
    room = max(column.value_width, _NARROW_HEADER, *map(cell_len, words))
    lines = [""]
    for word in words:
        if lines[-1] and cell_len(lines[-1] + word) > room:
            lines.append("")
        lines[-1] += word
    return "\n".join(lines)


def _width(columns: Sequence[_Column], *, at_most: int = _WIDEST) -> int:
    """What a table of them takes, each folded to so many characters."""
    return sum(min(column.width, at_most) for column in columns) + _BETWEEN * (len(columns) - 1)


def _printed(columns: Sequence[_Column], width: int) -> str:
    return columns_as_text(
        [column.header for column in columns],
        zip(*(column.cells for column in columns), strict=True),
        are_numbers=[column.is_number for column in columns],
        width=width,
    )
