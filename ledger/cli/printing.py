"""Answers on stdout and stderr, in the form and width that were asked for."""

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from ledger.cli import logs
from ledger.errors import MirrorLedgerError, PreconditionError, UnsafeError, UsageError
from ledger.offsets.rendering import RENDERERS, render_table
from ledger.words import shown, shown_lines

if TYPE_CHECKING:
    from ledger.facts.syncs import PartitionPair

_NO_TERMINAL = 160
"""Characters of a line where the terminal's width is not known: nobody reads along, and few answers are wider."""

SHOW_CUT = "mirror-ledger.show-cut"
"""Where a command remembers that `--show-cut` was given."""
_TYPES = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}


@dataclass(frozen=True, slots=True)
class Form:
    """How a command prints a table."""

    output: str = "table"
    wide: bool = False

    def put(self, answer: pa.Table) -> None:
        put(rendered(answer, self.output, wide=self.wide))

    def put_rows(self, rows: Iterable[Mapping[str, object]], columns: str) -> None:
        """Rows under columns that are declared as headers of queries do: `topic string, partition bigint`."""
        self.put(table_of(rows, columns))

    def say_rows(self, rows: Iterable[Mapping[str, object]], columns: str) -> None:
        """The same on stderr, as a table, beside data on stdout."""
        click.echo(
            shown_lines(rendered(table_of(rows, columns), "table", wide=self.wide)), nl=False, err=True
        )


def table_of(rows: Iterable[Mapping[str, object]], columns: str) -> pa.Table:
    """Rows under columns that are declared as headers of queries do."""
    declared = (column.split() for column in columns.split(", "))
    schema = pa.schema([(name, _TYPES[type_]) for name, type_ in declared])
    return pa.Table.from_pylist(list(rows), schema=schema)


def say_cut(token: Callable[[], str], output: str) -> None:
    """What names the rows behind an answer: 300 characters, so people ask for them, and programs need not.

    To find the token is a tenth of what a command costs: it is asked for where it is said.
    """
    if click.get_current_context().meta.get(SHOW_CUT) or output == "json":
        say(f"cut {token()}")


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


def say(*lines: str, **fields: object) -> None:
    """On stderr: names and reasons are of others, so what is not printable of them is escaped, line feeds too.

    `fields`: what the lines are about, of which a log in JSON has each by its name.
    """
    if logs.writes_json():
        logs.said(*lines, **fields)
        return
    for line in lines:
        click.echo(shown(line), err=True)


def said_once() -> Callable[[str], None]:
    """Says a line unless it was the last one: of what is waited for, again and again."""
    last: list[str] = []

    def say_next(text: str) -> None:
        if last != [text]:
            last[:] = [text]
            say(text)

    return say_next


def say_error(error: MirrorLedgerError) -> None:
    first, *others = error.lines or ("",)
    say(f"error: {first}", *others)


def put_operation(operation_id: str | None, *lines: str, about: str = "") -> None:
    """What a command did on stderr, and the id of its operation on stdout; None: there was nothing to do."""
    if operation_id is None:
        say(f"{about}nothing to do: {' '.join(lines)}; nothing was recorded")
        return
    say(*lines)
    put(f"{operation_id}\n")


def asked_for(question: str) -> str:
    """What a person types; the question is on stderr."""
    return str(click.prompt(shown(question), err=True))


def confirmed(question: str) -> bool:
    """Whether a person says yes."""
    return click.confirm(shown(question), err=True)


def terminal_width() -> int:
    return shutil.get_terminal_size(fallback=(_NO_TERMINAL, 24)).columns


def refuse_partitions(headline: str, reasons: Mapping["PartitionPair", str], *, of: int) -> None:
    """Say why, by partition: some of so many refused is exit code 4, all of them 5; none is no error."""
    if not reasons:
        return
    lines = (f"{headline}:", *(f"  {pair.source.words}: {reason}" for pair, reason in reasons.items()))
    raise PreconditionError(*lines) if len(reasons) == of else UnsafeError(*lines)
