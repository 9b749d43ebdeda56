"""A prompt for SQL: statements over several lines to a semicolon; errors are printed, and the prompt returns."""

import sqlite3
from collections.abc import Callable

import pyarrow as pa

from ledger.answers.elsewhere import SealedLedger
from ledger.cli.printing import put, say, say_error
from ledger.errors import UsageError

Render = Callable[[pa.Table], str]
_FIRST, _NEXT = "sql> ", "...> "
_HELP = """A statement ends with a semicolon and may take several lines; Ctrl-C drops what was typed.
.tables  tables and views of the ledger; `describe NAME;` shows columns
.help    this
.quit    end, as Ctrl-D does
What you create is in memory until then. The ledger is read, never changed.
"""


class Prompt:
    """Asks for statements until the end of the input. The history of the arrow keys ends with the prompt."""

    def __init__(self, ledger: SealedLedger, render: Render, ask: Callable[[str], str] = input) -> None:
        self._ledger = ledger
        self._render = render
        self._ask = ask

    def run(self) -> None:
        """Ends with `.quit` or at the end of the input."""
        _edit_lines()
        say("DuckDB on the ledger at this cut; .help tells what can be typed")
        while (typed := self._next()) is not None:
            if typed:
                self._answer(typed)

    def _next(self) -> str | None:
        """A whole statement or a command; empty when the typing was dropped, None at the end."""
        lines: list[str] = []
        try:
            while True:
                lines.append(self._ask(_NEXT if lines else _FIRST))
                text = "\n".join(lines).strip()
                if not text:
                    lines.clear()
                elif text.startswith(".") or sqlite3.complete_statement(text):
                    return None if text in (".quit", ".exit") else text
        except EOFError:
            say("")
            return None
        except UnicodeDecodeError as error:
            say(f"error: what was typed cannot be read: {error}")
            return ""
        except KeyboardInterrupt:
            say("")
            return ""

    def _answer(self, typed: str) -> None:
        try:
            if typed.startswith("."):
                self._command(typed)
                return
            for answer in self._ledger.answers(typed):
                put("done\n" if answer is None else self._render(answer))
        except UsageError as error:
            say_error(error)
        except KeyboardInterrupt:
            say("interrupted")

    def _command(self, typed: str) -> None:
        if typed == ".tables":
            put(self._render(self._ledger.names()))
        elif typed == ".help":
            put(_HELP)
        else:
            raise UsageError(f"no command {typed}; .help tells which there are")


def _edit_lines() -> None:
    """Arrow keys and a history in memory, where Python was built with them."""
    try:
        import readline  # noqa: F401  to import it is what `input` needs
    except ImportError:
        return
