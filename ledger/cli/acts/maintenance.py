"""`maintain`: merge the small files of the ledger and remove what merging superseded, by hand."""

from dataclasses import asdict

import click
import pyarrow as pa

from ledger.app.tables import maintain_ledger
from ledger.cli.configured import configuration
from ledger.cli.printing import output_option, put, rendered, require_tables, say, wide_option
from ledger.errors import MirrorLedgerError


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@output_option
@wide_option
@click.pass_context
def maintain(context: click.Context, dry_run: bool, output: str, wide: bool) -> None:
    """Merge small files of the ledger's tables, remove superseded ones, shorten the logs; facts stay.

    Running drivers and recorders do the same beside their work; this is for ledgers without any, and may run
    beside them.
    """
    require_tables(output, wide=wide)
    done, failed = maintain_ledger(configuration(context), dry_run=dry_run)
    rows = [asdict(upkeep) for upkeep in done]
    put(rendered(pa.Table.from_pylist(rows, schema=_SCHEMA), output, wide=wide))
    if dry_run:
        say("dry run: nothing was written or removed")
    if failed:
        raise MirrorLedgerError("\n".join(map(str, failed)))


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
