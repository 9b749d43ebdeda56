"""`maintain`: merge the small files of the ledger and remove what merging superseded, by hand."""

from dataclasses import asdict

import click
import pyarrow as pa

from ledger.answers.maintenance import damages, maintain_ledger, repair_ledger
from ledger.cli.configured import command_context, configuration
from ledger.cli.printing import output_option, put, rendered, require_tables, say, wide_option
from ledger.cli.why import why_options
from ledger.context import Context
from ledger.errors import MirrorLedgerError, UsageError
from ledger.facts.operations import Why
from ledger.words import counted


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@click.option(
    "--repair", is_flag=True, help="Continue without what is damaged, where no copy of it can be put back."
)
@why_options
@output_option
@wide_option
@click.pass_context
def maintain(context: click.Context, dry_run: bool, repair: bool, why: Why, output: str, wide: bool) -> None:
    """Merge small files of the ledger's tables, remove superseded ones, shorten the logs; facts stay.

    Running drivers and recorders do the same beside their work; this is for ledgers without any, and may run
    beside them.
    """
    require_tables(output, wide=wide)
    if repair:
        _repair(command_context(context, why), dry_run=dry_run)
        return
    done, failed = maintain_ledger(configuration(context), dry_run=dry_run)
    rows = [asdict(upkeep) for upkeep in done]
    put(rendered(pa.Table.from_pylist(rows, schema=_SCHEMA), output, wide=wide))
    if dry_run:
        say("dry run: nothing was written or removed")
    if failed:
        raise MirrorLedgerError("\n".join(map(str, failed)))


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


_NUMBER = pa.int64()
_SCHEMA = pa.schema(
    {
        "table": pa.string(),
        "files": _NUMBER,
        "merged": _NUMBER,
        "merged_bytes": _NUMBER,
        "written": _NUMBER,
        "written_bytes": _NUMBER,
        "given_up": _NUMBER,
        "removed": _NUMBER,
        "log_entries": _NUMBER,
    }
)
