"""Commands that read the ledger alone: `status`, `health` and `query`. No JVM, no broker."""

import re
import shutil
from collections.abc import Sequence

import click
import pyarrow as pa

from ledger.answers.ledger import Ledger
from ledger.cli.configured import configuration
from ledger.cli.options import as_of_option, show_cut_option, since_option, table_options
from ledger.cli.printing import Form, put, say, say_cut
from ledger.errors import LedgerUnavailableError, UnsafeError, UsageError
from ledger.machine import LocalProcesses
from ledger.store import catalog
from ledger.store.catalog import Value
from ledger.words import counted, duration

_NARROWEST = 60
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


def opened(context: click.Context, as_of: str | None) -> Ledger:
    """The ledger of the command's configuration, at the cut that is asked about."""
    return Ledger.open(configuration(context), as_of=as_of)


def say_left(ledger: Ledger) -> None:
    """What of the ledger is in an archive, on stderr: for who reads facts, and audits that begin behind it."""
    if (left := ledger.facts_left) is not None:
        say(left)


@click.command()
@click.argument("flow", required=False)
@click.option("--partitions", is_flag=True, help="Add a table of all partitions.")
@click.option(
    "--differences", is_flag=True, help="Count what is not the same at both sides, by topic and cause."
)
@click.option(
    "--check",
    is_flag=True,
    help="Exit with 4 when something is stopped or needs attention, or a driver is dead.",
)
@as_of_option
@show_cut_option
@table_options
@click.pass_context
def status(
    context: click.Context,
    flow: str | None,
    partitions: bool,
    differences: bool,
    check: bool,
    as_of: str | None,
    form: Form,
) -> None:
    """Where FLOW, or every flow, stands, why, and what to do next. CSV is the table of partitions."""
    from ledger.answers.text import WIDTH, render_open_apply, render_report, render_reports_json

    ledger = opened(context, as_of)
    found = ledger.status(*([flow] if flow else []), differences=differences)
    if form.output == "json":
        put(render_reports_json(found.flows, found.open_apply))
    if form.output == "table":
        width = max(_NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns)
        begun = [] if found.open_apply is None else [found.open_apply]
        changing = [render_open_apply(one, at_ms=found.at_ms, width=width) for one in begun]
        put("\n".join([*changing, *(render_report(report, width) for report in found.flows)]))
    if form.output == "csv" or (form.output == "table" and partitions):
        form.put(found.partitions)
    for line in found.objections:
        say(f"objectives: {line}")
    for line in found.maintenance:
        say(f"ledger: {line}")
    if as_of is None and (anchored := ledger.anchored()) is not None:
        say(f"ledger: {anchored.words(found.at_ms)}")
    say_cut(lambda: ledger.cut, form.output)
    if check and found.needs_attention:
        if form.output != "table":
            for line in found.of_flows:
                say(line)
        raise UnsafeError(f"{counted(len(found.needs_attention), 'reason')} to act, named above")


@click.command()
@click.argument("flows", nargs=-1, metavar="[FLOW]...")
@click.option(
    "--hung",
    is_flag=True,
    help="Ask what a new start would mend, for probes of liveness: 4 only where a driver that is at work on this host "
    "has recorded nothing for three heartbeats; 0 where the ledger cannot be read.",
)
@click.pass_context
def health(context: click.Context, flows: tuple[str, ...], hung: bool) -> None:
    """Whether a driver of each FLOW is at work, for probes: 0 yes, 4 no, 1 nobody knows. Without FLOW: of all that are
    enabled, but for one that has never run and stands by for a change of direction."""
    from ledger.answers.drivers import DriverState
    from ledger.answers.flow_status import flow_stands_by, last_driver

    try:
        ledger = opened(context, None)
    except LedgerUnavailableError as error:
        if not hung:
            raise
        say(f"whether a driver hangs is unknown, and no start mends that: {error}")
        return
    config, here = ledger.config, LocalProcesses().own().host
    wanted = [config.enabled_flow(name) for name in flows] or config.enabled_flows
    away = 0
    for flow in wanted:
        driver = last_driver(ledger.snapshot, flow, at_ms=ledger.opened_at_ms, is_now=True)
        hangs = driver.state is DriverState.SILENT and driver.host == here
        is_calm = not flows and flow_stands_by(config, ledger.snapshot, flow, driver)
        away += hangs if hung else driver.state is not DriverState.RUNNING and not is_calm
        last = (
            "" if driver.silent_seconds is None else f", last recorded {duration(driver.silent_seconds)} ago"
        )
        put(f"{flow.name}: {driver.state}{', stands by for a change of direction' if is_calm else last}\n")
    if away:
        what = "whose driver hangs" if hung else "without a driver at work"
        raise UnsafeError(f"{counted(away, 'flow')} of {len(wanted)} {what}, named above")


@click.command()
@click.argument("name", required=False)
@click.option("--param", "params", multiple=True, metavar="KEY=VALUE", help="A parameter of the query.")
@click.option("--list", "list_only", is_flag=True, help="List the queries and what they answer.")
@since_option
@as_of_option
@show_cut_option
@table_options
@click.pass_context
def query(
    context: click.Context,
    name: str | None,
    params: tuple[str, ...],
    list_only: bool,
    since: str | None,
    as_of: str | None,
    form: Form,
) -> None:
    """Run the query NAME of the catalog. An audit that returns rows exits with 4."""
    if list_only or name is None:
        rows = [
            {"query": found.name, "parameters": found.stated_parameters, "answers": found.answers}
            for found in catalog.queries().values()
        ]
        form.put(pa.Table.from_pylist(rows))
        return
    wanted = catalog.query(name)
    values = values_of(wanted, params)
    ledger = opened(context, as_of)
    if since is None:
        answer = ledger.query(name, **values)
    else:
        wanted.check(values)
        token = ledger.cut_since(since).token
        answer = ledger.query_since(name, token)
        say(f"what came since cut {token} was audited")
    form.put(answer.table)
    say_cut(lambda: ledger.cut, form.output)
    if wanted.is_audit:
        say_left(ledger)
    if wanted.is_audit and len(answer):
        raise UnsafeError(f"{name}: {counted(len(answer), 'row')} break the invariant")


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
        if key in values:
            raise UsageError(f"--param {key!r} is given twice; nothing was read")
        values[key] = text
    return values


def typed(key: str, text: str, type_: str) -> Value:
    """The value of a parameter as its type has it."""
    if type_ == "boolean" and text in ("true", "false"):
        return text == "true"
    if type_ in ("bigint", "int"):
        if not _NUMBER.fullmatch(text):
            raise UsageError(f"--param {key} takes a number, got {text!r}; nothing was read")
        return int(text)
    return text
