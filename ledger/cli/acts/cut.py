"""`cut`: record where both sides of a pair of clusters stand, once nobody writes there any more."""

from collections.abc import Sequence

import click

from ledger.changeover.cut import cut_of_pair
from ledger.changeover.pairs import Pair
from ledger.cli.configured import command_context
from ledger.cli.printing import put, say
from ledger.store.session import random_id


@click.command()
@click.option("--from", "source", required=True, help="The cluster that flows copied from.")
@click.option("--to", "target", required=True, help="The cluster that they copied to.")
@click.option(
    "--topic", "topics", multiple=True, help="Only this topic of the target; may be repeated. Default: all."
)
@click.option("--operation", help="Record it for this operation, once. Default: an operation of its own.")
@click.option(
    "--quiet-seconds",
    "quiet_s",
    type=click.FloatRange(min=0, max=3600),
    default=2.0,
    show_default=True,
    help="For so long nothing may come to either side, or the cut is refused.",
)
@click.pass_context
def cut(
    context: click.Context,
    source: str,
    target: str,
    topics: Sequence[str],
    operation: str | None,
    quiet_s: float,
) -> None:
    """Record where source and target of a pair stand, partition by partition, with the map between them."""
    pair = Pair(target, source, tuple(topics) or None)
    taken = cut_of_pair(
        command_context(context), pair, operation_id=operation or random_id(), quiet_s=quiet_s
    )
    say(taken.words)
    for why in _reasons(taken.facts["no_start"]):
        say(f"no way back from some partitions: {why}")
    put(f"{taken.operation_id}\n")


def _reasons(found: object) -> list[str]:
    return [str(one) for one in found] if isinstance(found, list) else []
