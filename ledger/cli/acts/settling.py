"""`settle`: record what a dead flow had copied to its target, while its source does not answer."""

import click

from ledger.changeover.settling import settle_flow
from ledger.cli.configured import command_context
from ledger.cli.options import required_why_options, table_options
from ledger.cli.printing import Form, refuse_partitions, say
from ledger.facts.operations import Why

_SETTLED = (
    "topic string, partition bigint, target_topic string, source_start bigint, target_start bigint, "
    "target_end bigint, records bigint, others string, refused string"
)


@click.command()
@click.argument("flow")
@required_why_options
@table_options
@click.pass_context
def settle(context: click.Context, flow: str, why: Why, form: Form) -> None:
    """Record what FLOW had copied and not recorded when its driver and its source died. Only the target is needed."""
    done = settle_flow(command_context(context, why), flow, progress=say)
    form.put_rows((one.facts for one in done.partitions), _SETTLED)
    say(done.words)
    headline = f"{flow}: {len(done.refused)} of {len(done.partitions)} partitions are not settled"
    refuse_partitions(headline, done.refused, of=len(done.partitions))
