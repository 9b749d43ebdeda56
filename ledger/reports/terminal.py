"""The gate to rich: everything that a terminal is drawn with passes `as_text`.

A text may hold names of others: a group, a topic, a host, a message of a broker, the output of a hook. rich would read
square brackets of a str as markup, and hand escapes on to the terminal.
"""

import io
import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import IO, Self

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledger.domain.words.unicode_text import shown, shown_lines

__all__ = ["StatusLine", "as_text", "cell_len", "columns_as_text"]


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
