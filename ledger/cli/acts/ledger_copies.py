"""`ledger copy` and `ledger restore`: a second place for the ledger, and a ledger from it when its host is lost."""

from dataclasses import asdict

import click

from ledger.cli.configured import configuration
from ledger.cli.options import required_why_options, table_options
from ledger.cli.printing import Form, say
from ledger.clock import SystemClock
from ledger.errors import UnsafeError
from ledger.facts.operations import Why
from ledger.machine import LocalProcesses, account
from ledger.store.comparing import compare_copy
from ledger.store.copying import copy_ledger
from ledger.store.restoring import restore_ledger

_COPIED = (
    "table string, version bigint, rows bigint, files bigint, sent bigint, sent_bytes bigint, removed bigint"
)
_COMPARED = "table string, rows bigint, ledger_rows bigint, files bigint, damaged bigint, differs boolean"


@click.group()
def ledger() -> None:
    """Copy the ledger to a second place, and make a ledger of a copy when its host is lost."""


@ledger.command()
@click.argument("to")
@click.option(
    "--check", is_flag=True, help="Read and compare the copy; copy nothing. Exit with 4 where it differs."
)
@table_options
@click.pass_context
def copy(context: click.Context, to: str, check: bool, form: Form) -> None:
    """Bring the copy of the ledger at TO, a folder or s3://BUCKET/PREFIX, up to date, or begin one.

    It may run beside drivers and recorders, and be ended at any time: the copy is then as it was, and the next one
    continues.
    """
    of = configuration(context).ledger
    if check:
        _check(of.path, to, form)
        return
    copied, done = copy_ledger(
        of.path, to, keep_hours=of.keep_superseded_hours, clock=SystemClock(), progress=lambda _line: None
    )
    form.put_rows(map(asdict, done), _COPIED)
    say(f"{to} is {copied.words}")


def _check(path: str, to: str, form: Form) -> None:
    copied, compared = compare_copy(path, to)
    form.put_rows(map(asdict, compared), _COMPARED)
    say(f"{to} is {copied.words}")
    if differing := [one.table for one in compared if one.differs]:
        raise UnsafeError(
            f"{to} is not what was copied, in {', '.join(differing)}; nothing was changed. Copy to another place"
        )


@ledger.command()
@click.argument("source", metavar="FROM")
@click.option(
    "--accept-loss-of",
    "lost",
    required=True,
    metavar="LEDGER_ID",
    help="The id of the ledger that is lost, as ledger copy and every command that reads the copy say it.",
)
@required_why_options
@table_options
@click.pass_context
def restore(context: click.Context, source: str, lost: str, why: Why, form: Form) -> None:
    """Make a ledger of the copy at FROM, at [ledger] path, which has to be empty: the first one is lost.

    What was recorded behind the copy's cut is lost: drivers find at the targets what was copied since, recorders read
    again what groups committed. The lost ledger must not be used again: whoever did is shut out of this one alone.
    """
    of = configuration(context).ledger
    done = restore_ledger(
        of.path,
        source,
        accepted_loss_of=lost,
        why=why,
        operator=account(),
        host=str(LocalProcesses().own()),
        clock=SystemClock(),
        progress=lambda _line: None,
    )
    form.put_rows(map(asdict, done.tables), _COPIED)
    for writer, epoch in done.epochs.items():
        say(f"{writer}: the next epoch is {epoch + 1}")
    say(f"{of.path} is a ledger from {done.copy.words}: operation {done.operation_id}")
