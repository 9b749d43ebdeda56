"""`maintain`: merge the small files of the ledger and remove what merging superseded, by hand."""

from dataclasses import asdict

import click

from ledger.answers.maintenance import (
    anchor_heads,
    damages,
    leave_facts,
    maintain_ledger,
    rebuild_projections,
    repair_ledger,
)
from ledger.cli.configured import command_context, configuration
from ledger.cli.options import table_options, why_options
from ledger.cli.printing import Form, put, say
from ledger.context import Context
from ledger.errors import MirrorLedgerError, UsageError
from ledger.facts.operations import Why
from ledger.words import counted, instant

_MAINTAINED = (
    "table string, files bigint, merged bigint, merged_bytes bigint, written bigint, written_bytes bigint, "
    "given_up bigint, removed bigint, log_entries bigint"
)


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@click.option(
    "--repair", is_flag=True, help="Continue without what is damaged, where no copy of it can be put back."
)
@click.option(
    "--rebuild", is_flag=True, help="Drop the projections, which answers read, and make them from the facts."
)
@why_options
@table_options
@click.pass_context
def maintain(
    context: click.Context, dry_run: bool, repair: bool, rebuild: bool, why: Why, form: Form
) -> None:
    """Merge small files of the ledger's tables, remove superseded ones, shorten the logs; facts stay, or leave into an
    archive where `keep_facts_days` says so.

    What answers read instead of whole tables (projections) is kept up as well, and where there is an [evidence] anchor,
    the heads of the ledger's links are written there. Running drivers and recorders do the
    same beside their work; this is for ledgers without any, and may run beside them.
    """
    if rebuild:
        if dry_run or repair:
            raise UsageError("--rebuild is given alone; nothing was done")
        tables = rebuild_projections(configuration(context))
        say(f"projections of {', '.join(tables) or 'no table: none has rows'} were built from the facts")
        return
    if repair:
        _repair(command_context(context, why), dry_run=dry_run)
        return
    done, failed = maintain_ledger(configuration(context), dry_run=dry_run)
    form.put_rows(map(asdict, done), _MAINTAINED)
    if dry_run:
        say("dry run: nothing was written or removed")
    if failed:
        raise MirrorLedgerError(*map(str, failed))
    if not dry_run and (anchored := anchor_heads(configuration(context))) is not None:
        say(f"the heads of the ledger's links are in {anchored}")
    if configuration(context).ledger.keep_facts_days is not None:
        for one in leave_facts(command_context(context, why), dry_run=dry_run, progress=say):
            rows = ", ".join(f"{count} of {table}" for table, count in one.rows.items() if count)
            say(
                f"facts from before {instant(one.period.until_ms)} left into {one.period.archive}: rows "
                f"{rows or 'had left before'}"
            )


def _repair(command: Context, *, dry_run: bool) -> None:
    """A line for each file that is damaged, on stdout."""
    if dry_run:
        found = damages(command.config)
    elif command.why.reason is None:
        raise UsageError("--repair gives up facts: say why with --reason WHY; nothing was done")
    else:
        found = repair_ledger(command)
    for one in found:
        put(f"{one}\n")
    if not found:
        say("nothing is damaged: every file that the ledger names was read")
    else:
        words = counted(len(found), "file")
        say(
            f"dry run: {words} would be given up"
            if dry_run
            else f"{words} given up; ledger_repaired lists them"
        )
