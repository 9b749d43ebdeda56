"""`promote` and `demote`: say that applications write at a cluster now, and no flow from the other one may."""

from collections.abc import Callable, Sequence

import click

from ledger.app.acts.directions import change_direction
from ledger.cli.configured import configuration
from ledger.cli.printing import say
from ledger.domain.operations.directions import Demoted, DirectionChange, Promoted
from ledger.operations.directions import Pair


def _direction(command: Callable[..., None]) -> Callable[..., None]:
    """What both take: the clusters, the topics, and why."""
    for parameter in (
        click.option("--ticket", help="Reference to a ticket, for the ledger."),
        click.option("--reason", required=True, help="Why, for the ledger."),
        click.option(
            "--topic",
            "topics",
            multiple=True,
            help="Only this topic of CLUSTER; may be repeated. Default: all.",
        ),
        click.option("--over", "former", required=True, help="The cluster where applications wrote before."),
        click.argument("cluster"),
    ):
        command = parameter(command)
    return click.pass_context(command)


@click.command()
@_direction
def promote(
    context: click.Context, cluster: str, former: str, topics: Sequence[str], reason: str, ticket: str | None
) -> None:
    """Let CLUSTER be where applications write: flows into it from the other cluster stop, whatever restarts them."""
    _change(context, Promoted, Pair(cluster, former, tuple(topics) or None), reason, ticket)


@click.command()
@_direction
@click.option(
    "--keep-ends", is_flag=True, help="Continue behind what was written at both sides meanwhile, by a cut."
)
def demote(
    context: click.Context,
    cluster: str,
    former: str,
    topics: Sequence[str],
    reason: str,
    ticket: str | None,
    keep_ends: bool,
) -> None:
    """Take a promotion of CLUSTER back: flows into it from the other cluster continue."""
    pair = Pair(cluster, former, tuple(topics) or None)
    _change(context, Demoted, pair, reason, ticket, keep_ends=keep_ends)


def _change(
    context: click.Context,
    kind: type[DirectionChange],
    pair: Pair,
    reason: str,
    ticket: str | None,
    *,
    keep_ends: bool = False,
) -> None:
    config = configuration(context)
    changed = change_direction(config, kind, pair, keep_ends=keep_ends, reason=reason, ticket=ticket)
    if changed.operation_id is None:
        say(f"nothing to do: {changed.words}; nothing was recorded")
        return
    say(changed.words)
    click.echo(changed.operation_id)
