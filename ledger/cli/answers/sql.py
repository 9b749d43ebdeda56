"""`sql` and `views`: the ledger for who writes SQL, in this process or elsewhere. No JVM, no broker, no network."""

import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from ledger.answers.elsewhere import SealedLedger
from ledger.answers.ledger import VIEWS, declared_in
from ledger.cli.answers.prompt import Prompt, Render
from ledger.cli.answers.reading import opened, say_left, split, typed, values_of
from ledger.cli.options import as_of_option, show_cut_option, table_options
from ledger.cli.printing import Form, put, rendered, say_cut
from ledger.errors import UsageError
from ledger.store.catalog import Value

_NUMBER = re.compile(r"-?[0-9]{1,18}")


@click.command()
@click.argument("statement", required=False)
@click.option("--file", "file", type=click.Path(dir_okay=False), help="Carry out the statements of a file.")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="KEY=VALUE",
    help="A column of the relation `params`, which has one row. Numbers are bigint, true and false boolean, others "
    "string, unless the header of a file says another type.",
)
@as_of_option
@show_cut_option
@table_options
@click.pass_context
def sql(
    context: click.Context,
    statement: str | None,
    file: str | None,
    params: tuple[str, ...],
    as_of: str | None,
    form: Form,
) -> None:
    """Carry out STATEMENT on the ledger's tables and views, in DuckDB; without one, ask for statements.

    Statements that do not come from a terminal are read from stdin to its end. What they create is in memory:
    the ledger cannot be changed, and no file and no network is reached.
    """
    if statement is not None and file is not None:
        raise UsageError("a STATEMENT and --file do not go together; nothing was read")
    text = statement if file is None else _read(file)
    ledger = opened(context, as_of)
    declared = declared_in(text or "")
    render = partial(rendered, output=form.output, wide=form.wide)
    values = _guessed(params) if declared is None else values_of(declared, params)
    with ledger.sql_session(values, declared) as session:
        say_cut(lambda: ledger.cut, form.output)
        say_left(ledger)
        if text is None and sys.stdin.isatty():
            Prompt(session, render).run()
        else:
            _carry_out(session, _from_stdin() if text is None else text, render)


@click.command()
@click.option(
    "--engine",
    type=click.Choice(list(VIEWS)),
    default="duckdb",
    show_default=True,
    help="Whose SQL to print.",
)
@click.option(
    "--for",
    "queries",
    multiple=True,
    metavar="QUERY",
    help="What answers this query, and nothing else; several times for several.",
)
@as_of_option
@click.pass_context
def views(context: click.Context, engine: str, queries: tuple[str, ...], as_of: str | None) -> None:
    """Print SQL that makes the ledger's tables, functions and views in another DuckDB, or in a Spark session."""
    ledger = opened(context, as_of)
    say_left(ledger)
    put(ledger.views(engine, queries))


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}; nothing was carried out") from error


def _from_stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin cannot be read: {error}; nothing was carried out") from error


def _carry_out(session: SealedLedger, text: str, render: Render) -> None:
    for answer in session.answers(text):
        if answer is not None:
            put(render(answer))


def _guessed(params: Sequence[str]) -> dict[str, Value]:
    """The values of `--param KEY=VALUE`, of the types that their texts can be."""
    return {key: typed(key, text, _type_of(text)) for key, text in split(params).items()}


def _type_of(text: str) -> str:
    if text in ("true", "false"):
        return "boolean"
    return "bigint" if _NUMBER.fullmatch(text) else "string"
