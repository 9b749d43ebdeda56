"""Answers on stdout and stderr, in the form and width that were asked for."""

import shutil
import sys

import click
import pyarrow as pa

from ledger.errors import UsageError
from ledger.offsets.rendering import RENDERERS, render_table
from ledger.words import shown_lines

_NO_TERMINAL = 160
"""Characters of a line where the terminal's width is not known: nobody reads along, and few answers are wider."""

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="How it is printed.",
)
wide_option = click.option(
    "--wide", is_flag=True, help="Tables with every column, a line for each row, however wide."
)


def _remember(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    context.meta[_SHOW_CUT] = is_asked


_SHOW_CUT = "mirror-ledger.show-cut"
show_cut_option = click.option(
    "--show-cut",
    is_flag=True,
    expose_value=False,
    callback=_remember,
    help="Print the token of the cut, which --as-of takes, on stderr; -o json has it there in any case.",
)


def say_cut(token: str, output: str) -> None:
    """What names the rows behind an answer: 300 characters, so people ask for them, and programs need not."""
    if click.get_current_context().meta.get(_SHOW_CUT) or output == "json":
        say(f"cut {token}")


def require_tables(output: str, *, wide: bool) -> None:
    """Raise `UsageError` where --wide has nothing to widen: before anything is done."""
    if wide and output != "table":
        raise UsageError(f"--wide is about tables, not -o {output}; nothing was done")


def rendered(answer: pa.Table, output: str, *, wide: bool = False) -> str:
    """The answer in a form of `RENDERERS`; tables fit the terminal, or are as wide as they need."""
    if output == "table":
        return render_table(answer, None if wide else terminal_width())
    return RENDERERS[output](answer)


def put(text: str) -> None:
    """Data on stdout: UTF-8 whatever the locale says; on a terminal what is not printable is escaped."""
    click.echo(shown_lines(text) if sys.stdout.isatty() else text.encode(), nl=False)


def say(text: str) -> None:
    """A line, or lines, on stderr: names and reasons are of others, so what is not printable of them is escaped."""
    click.echo(shown_lines(text), err=True)


def asked_for(question: str) -> str:
    """What a person types; the question is on stderr."""
    return str(click.prompt(shown_lines(question), err=True))


def confirmed(question: str) -> bool:
    """Whether a person says yes."""
    return click.confirm(shown_lines(question), err=True)


def terminal_width() -> int:
    return shutil.get_terminal_size(fallback=(_NO_TERMINAL, 24)).columns
