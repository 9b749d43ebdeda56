"""`extras`: list what a cluster that is back has alone; nothing is changed."""

from collections.abc import Sequence

import click

from ledger.changeover.deficits import list_one_sided
from ledger.changeover.pairs import Pair
from ledger.cli.configured import command_context
from ledger.cli.options import table_options
from ledger.cli.printing import Form, say
from ledger.facts.operations import Why
from ledger.words import counted

_COLUMNS = (
    "what string, topic string, partition bigint, offsets bigint, ranges string, records bigint, bytes bigint, "
    "is_whole string, first_timestamp_ms bigint, last_timestamp_ms bigint, unpaired bigint, read_by string"
)


@click.command()
@click.option(
    "--from", "source", required=True, help="The cluster where applications write since a failover."
)
@click.option("--to", "target", required=True, help="The cluster that was lost, and answers again.")
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated. Default: all.")
@table_options
@click.pass_context
def extras(context: click.Context, source: str, target: str, topics: Sequence[str], form: Form) -> None:
    """List records that --to alone has, and those that it lacks, about which nothing is decided: by partition.

    extras: at --to alone, with times and readers. deficits: it had them, they were copied, and it lost them; ranges are
    offsets at --from, where the copies are; unpaired: of these so many that a dead driver had copied.

    Read from the cluster, up to 64 MB a partition; is_whole says whether that was all. Nothing is changed.
    """
    opened, pair = command_context(context, Why()), Pair(source, target, tuple(topics) or None)
    known = list_one_sided(opened, pair)
    lacking, found = known.lacking, known.extras
    form.put_rows(
        [
            *({"what": "extras", **one.facts} for one in found),
            *({"what": "deficits", **one.facts} for one in lacking),
        ],
        _COLUMNS,
    )
    say(f"{target}: {counted(sum(one.offsets for one in found), 'offset')} that were never copied")
    if lacking:
        say(f"{target}: lacks {counted(sum(one.offsets for one in lacking), 'record')} that were copied")
