"""`report`: files for people who were not there. They read the ledger alone: no JVM, no broker."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledger.answers.ledger import Ledger
from ledger.cli.configured import configuration
from ledger.cli.options import Command, time_of, together
from ledger.cli.printing import put, say
from ledger.errors import MirrorLedgerError, UsageError

if TYPE_CHECKING:
    from ledger.reports.documents import Report
    from ledger.reports.periods import Period

_form_option = click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown", "json"]),
    default="html",
    show_default=True,
    help="HTML is one file with plots and attachments inside.",
)
_file_option = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where it is written; default stdout.",
)
_until_option = click.option(
    "--until",
    help="A time (ISO-8601 with offset, or epoch ms), an operation id or a cut token; default what is recorded by now.",
)
_since_option = click.option(
    "--since", help="A time (ISO-8601 with offset, or epoch ms); default the beginning of the ledger."
)
_of_period: Callable[[Command], Command] = together(_since_option, _until_option, _form_option, _file_option)


@click.group()
def report() -> None:
    """Write what the ledger says for people who were not there: HTML with plots, Markdown or JSON.

    The same cut gives the same bytes: a report ends with the cut that --until takes.
    """


@report.command()
@_of_period
@click.pass_context
def audit(context: click.Context, since: str | None, until: str | None, form: str, file: Path | None) -> None:
    """What happened to all mirrors in a period: lag, outages, losses, who asked for what, what proves it."""
    require_report_extra()
    from ledger.reports.audit import audit_report

    _put(audit_report(_period(context, since, until)), form, file)


@report.command()
@click.argument("operation")
@click.option("--until", help="As of when; as --until of report audit takes it.")
@_form_option
@_file_option
@click.pass_context
def failover(context: click.Context, operation: str, until: str | None, form: str, file: Path | None) -> None:
    """A change of direction, by its OPERATION id: every step, what was lost and repeated, what proves it."""
    require_report_extra()
    from ledger.reports.failover import failover_report

    _put(failover_report(_period(context, None, until), operation), form, file)


@report.command()
@_of_period
@click.pass_context
def drill(context: click.Context, since: str | None, until: str | None, form: str, file: Path | None) -> None:
    """What drills have shown in a period: verdicts, places, what a failover would have cost."""
    require_report_extra()
    from ledger.reports.drills import drill_report

    _put(drill_report(_period(context, since, until)), form, file)


@report.command()
@_of_period
@click.pass_context
def capacity(
    context: click.Context, since: str | None, until: str | None, form: str, file: Path | None
) -> None:
    """How much was copied in a period and how fast, by flow and topic, and what grows."""
    require_report_extra()
    from ledger.reports.capacity import capacity_report

    _put(capacity_report(_period(context, since, until)), form, file)


def require_report_extra() -> None:
    """Before anything is read: libraries that nothing else needs may be missing."""
    if missing := [name for name in ("jinja2", "pygal") if find_spec(name) is None]:
        raise UsageError(
            f"report needs {missing[0]}, which `pip install 'mirror-ledger[report]'` brings; nothing was reported"
        )


def _period(context: click.Context, since: str | None, until: str | None) -> "Period":
    from ledger.reports.periods import Period

    since_ms = None if since is None else time_of("--since", since, undone="nothing was reported")
    return Period.of(Ledger.open(configuration(context), as_of=until), since_ms)


def _put(made: "Report", form: str, file: Path | None) -> None:
    from ledger.reports.writing import FORMATS

    text = FORMATS[form](made)
    if file is None:
        put(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MirrorLedgerError(
            f"{file} cannot be written: {error.strerror}; the report was not kept"
        ) from error
    say(f"{file}: {made.title}, {len(text.encode()):,} bytes")
