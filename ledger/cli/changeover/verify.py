"""`verify`: what a change of direction has made is read back, whoever carried it out."""

import click
import pyarrow as pa

from ledger.changeover.checks import CheckStatus
from ledger.changeover.verifying import verify_changeover
from ledger.cli.configured import command_context
from ledger.cli.printing import output_option, put, rendered, require_tables, wide_option
from ledger.errors import UnsafeError
from ledger.words import counted

_SCHEMA = pa.schema({name: pa.string() for name in ("check", "subject", "status", "words")})


@click.command()
@click.argument("name", metavar="ID")
@output_option
@wide_option
@click.pass_context
def verify(context: click.Context, name: str, output: str, wide: bool) -> None:
    """Read back what ID has made: an operation of `apply`, or a plan that was exported and carried out by hand."""
    require_tables(output, wide=wide)
    checks = verify_changeover(command_context(context), name)
    put(rendered(pa.Table.from_pylist([one.row() for one in checks], schema=_SCHEMA), output, wide=wide))
    wrong = sum(one.status is CheckStatus.NOT_OK for one in checks)
    unknown = sum(one.status is CheckStatus.UNKNOWN for one in checks)
    if wrong or unknown:
        raise UnsafeError(f"of {counted(len(checks), 'check')} {wrong} are not ok, and {unknown} unknown")
