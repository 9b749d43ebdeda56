"""`sql` and `views`: the ledger for who writes SQL, in this process or elsewhere. No JVM, no broker, no network."""

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import click

from ledger import catalog
from ledger.adapters import pasted_views
from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.adapters.duck.sealed import SealedLedger, sealed
from ledger.app import answers
from ledger.catalog import Named, Value
from ledger.cli.answers.prompt import Prompt, Render
from ledger.cli.answers.reading import as_of_option, filled_in, split, typed
from ledger.cli.configured import configuration
from ledger.cli.printing import output_option, rendered, require_tables, wide_option
from ledger.errors import InvalidValueError, UsageError

_PASTED: Mapping[str, Callable[[DeltaSnapshot], str]] = {
    "duckdb": pasted_views.for_duckdb,
    "spark": pasted_views.for_spark,
}
_NUMBER = re.compile(r"-?\d{1,18}")


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
@output_option
@wide_option
@click.pass_context
def sql(
    context: click.Context,
    statement: str | None,
    file: str | None,
    params: tuple[str, ...],
    as_of: str | None,
    output: str,
    wide: bool,
) -> None:
    """Carry out STATEMENT on the ledger's tables and views, in DuckDB; without one, ask for statements.

    Statements that do not come from a terminal are read from stdin to its end. What they create is in memory:
    the ledger cannot be changed, and no file and no network is reached.
    """
    require_tables(output, wide=wide)
    if statement is not None and file is not None:
        raise UsageError("a STATEMENT and --file do not go together; nothing was read")
    text = statement if file is None else _read(file)
    config = configuration(context)
    at = answers.snapshot(config, as_of)
    declared = _declared(text or "")
    names, given = _params(declared, split(params))
    values = given if declared is None else filled_in(config, at, declared, given, as_of)
    if declared is not None:
        declared.check(values)
    click.echo(f"cut {at.cut.token}", err=True)
    render = partial(rendered, output=output, wide=wide)
    with sealed(at, names, values) as ledger:
        if text is None and sys.stdin.isatty():
            Prompt(ledger, render).run()
        else:
            _carry_out(ledger, sys.stdin.read() if text is None else text, render)


@click.command()
@click.option(
    "--engine",
    type=click.Choice(list(_PASTED)),
    default="duckdb",
    show_default=True,
    help="Whose SQL to print.",
)
@as_of_option
@click.pass_context
def views(context: click.Context, engine: str, as_of: str | None) -> None:
    """Print SQL that makes the ledger's tables, functions and views in another DuckDB, or in a Spark session."""
    at = answers.snapshot(configuration(context), as_of)
    click.echo(_PASTED[engine](at), nl=False)
    click.echo(f"cut {at.cut.token}", err=True)


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}; nothing was carried out") from error


def _carry_out(ledger: SealedLedger, text: str, render: Render) -> None:
    for answer in ledger.answers(text):
        if answer is not None:
            click.echo(render(answer), nl=False)


def _params(
    declared: catalog.Query | None, texts: Mapping[str, str]
) -> tuple[tuple[Named, ...], dict[str, Value]]:
    """Columns and values of `params`: as the header of a query says, else by what the values can be."""
    guessed = tuple(Named(key, _type_of(value)) for key, value in texts.items())
    names = guessed if declared is None else declared.params
    types = {name.name: name.type for name in names}
    return names, {key: typed(key, value, types.get(key, "string")) for key, value in texts.items()}


def _declared(text: str) -> catalog.Query | None:
    """The query that a text is, when it has the header of one."""
    try:
        return catalog.parse_query(text) if text.startswith("-- name:") else None
    except InvalidValueError as error:
        raise UsageError(f"{error}; nothing was carried out") from error


def _type_of(text: str) -> str:
    if text in ("true", "false"):
        return "boolean"
    return "bigint" if _NUMBER.fullmatch(text) else "string"
