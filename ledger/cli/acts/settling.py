"""`settle`: record what a dead flow had copied to its target, while its source does not answer."""

import click
import pyarrow as pa

from ledger.changeover.settling import settle_flow
from ledger.cli.acts.refusals import refuse_partitions
from ledger.cli.configured import command_context
from ledger.cli.printing import output_option, put, rendered, require_tables, say, wide_option
from ledger.cli.why import required_why_options
from ledger.facts.operations import Why


@click.command()
@click.argument("flow")
@required_why_options
@output_option
@wide_option
@click.pass_context
def settle(context: click.Context, flow: str, why: Why, output: str, wide: bool) -> None:
    """Record what FLOW had copied and not recorded when its driver and its source died. Only the target is needed."""
    require_tables(output, wide=wide)
    done = settle_flow(command_context(context, why), flow, progress=say)
    table = pa.Table.from_pylist([one.facts() for one in done.partitions], schema=_SCHEMA)
    put(rendered(table, output, wide=wide))
    say(done.words)
    headline = f"{flow}: {len(done.refused)} of {len(done.partitions)} partitions are not settled"
    refuse_partitions(headline, done.refused, of=len(done.partitions))


_TEXT, _NUMBER = pa.string(), pa.int64()
_SCHEMA = pa.schema(
    {
        "topic": _TEXT,
        "partition": _NUMBER,
        "target_topic": _TEXT,
        "source_start": _NUMBER,
        "target_start": _NUMBER,
        "target_end": _NUMBER,
        "records": _NUMBER,
        "others": _TEXT,
        "refused": _TEXT,
    }
)
