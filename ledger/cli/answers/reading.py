"""Commands that read the ledger alone: `status` and `query`. No JVM, no broker."""

import shutil
from collections.abc import Mapping, Sequence

import click
import pyarrow as pa

from ledger import catalog
from ledger.adapters.arrow_schema import arrow_type
from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.app import answers, group_offsets
from ledger.app.flow_status import asked_at_ms, maintenance_behind, report_flow, with_freshness
from ledger.catalog import Value
from ledger.cli.configured import configuration
from ledger.cli.printing import output_option, rendered, require_tables, wide_option
from ledger.config.mirror import MirrorConfig
from ledger.errors import UnsafeError, UsageError
from ledger.operations.flow_answers import partition_columns
from ledger.operations.flow_report import FlowReport
from ledger.reports.flow_text import WIDTH, render_report, render_reports_json

_DRIVER_LIVES = "driver_lives"
"""A parameter that is found out where it is not given."""

_NARROWEST = 60
as_of_option = click.option(
    "--as-of", help="A time (ISO-8601 with offset, or epoch ms), an operation id or a cut token; default now."
)


def show(at: DeltaSnapshot, answer: pa.Table, output: str, *, wide: bool = False) -> None:
    """The answer on stdout, the cut that it was computed from on stderr."""
    click.echo(rendered(answer, output, wide=wide), nl=False)
    click.echo(f"cut {at.cut.token}", err=True)


@click.command()
@click.argument("flow", required=False)
@click.option("--partitions", is_flag=True, help="Add a table of all partitions.")
@click.option(
    "--check",
    is_flag=True,
    help="Exit with 4 when something is stopped or needs attention, or a driver is dead.",
)
@as_of_option
@output_option
@wide_option
@click.pass_context
def status(
    context: click.Context,
    flow: str | None,
    partitions: bool,
    check: bool,
    as_of: str | None,
    output: str,
    wide: bool,
) -> None:
    """Where FLOW, or every flow, stands, why, and what to do next. CSV is the table of partitions."""
    require_tables(output, wide=wide)
    config = configuration(context)
    flows = [config.flow(flow).name] if flow else list(config.flows)
    at = answers.snapshot(config, as_of)
    reports = [report_flow(config, at, name, as_of=as_of) for name in flows]
    if output == "json":
        click.echo(render_reports_json(reports), nl=False)
    if output == "table":
        width = max(_NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns)
        click.echo("\n".join(render_report(report, width) for report in reports), nl=False)
    if output == "csv" or (output == "table" and partitions):
        click.echo(rendered(_partitions(reports), output, wide=wide), nl=False)
    for line in maintenance_behind(config) if as_of is None else ():
        click.echo(f"ledger: {line}", err=True)
    click.echo(f"cut {at.cut.token}", err=True)
    if check:
        _refuse_what_needs_attention(reports)


def _partitions(reports: Sequence[FlowReport]) -> pa.Table:
    """The columns of `flow_status`, and those of the partition's lag."""
    columns = [(column.name, arrow_type(column.type)) for column in partition_columns()]
    rows = [dict(row) for report in reports for row in report.partitions]
    return pa.Table.from_pylist(rows, schema=pa.schema(columns))


def _refuse_what_needs_attention(reports: Sequence[FlowReport]) -> None:
    lines = [f"{report.flow}: {reason}" for report in reports for reason in report.needs_attention]
    if lines:
        raise UnsafeError("; ".join(lines))


@click.command()
@click.argument("name", required=False)
@click.option("--param", "params", multiple=True, metavar="KEY=VALUE", help="A parameter of the query.")
@click.option("--list", "list_only", is_flag=True, help="List the queries and what they answer.")
@as_of_option
@output_option
@wide_option
@click.pass_context
def query(
    context: click.Context,
    name: str | None,
    params: tuple[str, ...],
    list_only: bool,
    as_of: str | None,
    output: str,
    wide: bool,
) -> None:
    """Run the query NAME of the catalog. An audit that returns rows exits with 4."""
    require_tables(output, wide=wide)
    if list_only or name is None:
        rows = [
            {"query": found.name, "parameters": found.stated_parameters, "answers": found.answers}
            for found in catalog.queries().values()
        ]
        click.echo(rendered(pa.Table.from_pylist(rows), output, wide=wide), nl=False)
        return
    wanted = catalog.query(name)
    values = values_of(wanted, params)
    config = configuration(context)
    at = answers.snapshot(config, as_of)
    answer = answers.run_query(at, name, filled_in(config, at, wanted, values, as_of))
    show(at, answer, output, wide=wide)
    if wanted.is_audit and answer.num_rows:
        raise UnsafeError(f"{name}: {answer.num_rows} rows break the invariant")


def filled_in(
    config: MirrorConfig,
    at: DeltaSnapshot,
    wanted: catalog.Query,
    values: Mapping[str, Value],
    as_of: str | None,
) -> dict[str, Value]:
    """The parameters, and those that a query of a known flow asks for and that can be found out when left out."""
    found = dict(values)
    if isinstance(flow := found.get("flow"), str):
        answers.require_flow(config, at, flow)
        if _DRIVER_LIVES in wanted.parameter_names:
            found.setdefault(_DRIVER_LIVES, as_of is None and group_offsets.driver_lives(config, flow))
    return with_freshness(config, wanted, found, at_ms=asked_at_ms(at, as_of))


def values_of(wanted: catalog.Query, params: Sequence[str]) -> dict[str, Value]:
    """The values of `--param KEY=VALUE`, by the types of the query's header."""
    types = {parameter.name: parameter.type for parameter in wanted.params}
    return {key: typed(key, text, types.get(key, "string")) for key, text in split(params).items()}


def split(params: Sequence[str]) -> dict[str, str]:
    """Texts by name, of `--param KEY=VALUE`."""
    values: dict[str, str] = {}
    for param in params:
        key, separator, text = param.partition("=")
        if not separator:
            raise UsageError(f"--param takes KEY=VALUE, got {param!r}; nothing was read")
        values[key] = text
    return values


def typed(key: str, text: str, type_: str) -> Value:
    """The value of a parameter as its type has it."""
    if type_ == "boolean" and text in ("true", "false"):
        return text == "true"
    if type_ in ("bigint", "int"):
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"--param {key} takes a number, got {text!r}; nothing was read") from None
    return text
