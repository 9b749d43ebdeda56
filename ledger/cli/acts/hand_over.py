"""`hand-over`: settings and permissions of a cluster become what applications, or the mirror back, need there."""

from collections.abc import Sequence
from typing import Any

import click

from ledger.changeover.hand_over import Ready, hand_over_rows, show_hand_over, undo_hand_over
from ledger.changeover.hand_over import hand_over as carry_out
from ledger.changeover.pairs import Pair
from ledger.cli.configured import command_context
from ledger.cli.options import required_why_options, table_options, together
from ledger.cli.printing import Form, put, say
from ledger.errors import UnsafeError
from ledger.facts.hand_overs import Purpose
from ledger.facts.operations import Why


@click.group(name="hand-over")
def hand_over() -> None:
    """Let topics of a cluster have the settings and permissions that they had at the other one."""


_pair_options = together(
    click.pass_context,
    click.option("--from", "from_cluster", required=True, help="The cluster where they were."),
    click.option("--to", "to_cluster", required=True, help="The cluster where applications come to."),
    click.option(
        "--topic", "topics", multiple=True, help="Only this topic of --to; may be repeated. Default: all."
    ),
    click.option(
        "--for",
        "purpose",
        type=click.Choice([str(Purpose.APPLICATIONS), str(Purpose.MIRROR)]),
        default=str(Purpose.APPLICATIONS),
        show_default=True,
        help="applications: they come to the cluster --to. mirror: the reverse flow is to copy to --from.",
    ),
    click.option(
        "--mirror-principal",
        "mirrors",
        multiple=True,
        help="A principal that is no application (User:mirror): none of its rules is carried. Can be repeated.",
    ),
)


def _asked(
    from_cluster: str, to_cluster: str, topics: Sequence[str], purpose: str, mirrors: Sequence[str]
) -> dict[str, Any]:
    pair = Pair(to_cluster, from_cluster, tuple(topics) or None)
    return {"pair": pair, "purpose": Purpose(purpose), "mirrors": mirrors}


@hand_over.command()
@_pair_options
@table_options
def show(context: click.Context, form: Form, **asked: Any) -> None:
    """What would be changed, what of it nobody knows, and what is left to people. Changes nothing."""
    plan = show_hand_over(command_context(context), **_asked(**asked))
    form.put_rows(hand_over_rows(plan), "cluster string, part string, name string, change string")


@hand_over.command(name="apply")
@_pair_options
@required_why_options
def apply_hand_over(context: click.Context, why: Why, **asked: Any) -> None:
    """Make the changes that `show` lists, with a receipt; asked again it does what is lacking."""
    done = carry_out(command_context(context, why), progress=say, **_asked(**asked))
    _say(done)
    if done.unknown:
        raise UnsafeError(
            f"{len(done.unknown)} kinds or topics could not be compared, and were left as they are; all else is done"
        )


@hand_over.command()
@click.argument("operation")
@required_why_options
@click.pass_context
def undo(context: click.Context, operation: str, why: Why) -> None:
    """Undo what the receipts of OPERATION list, but for what somebody has changed since then."""
    for done in undo_hand_over(command_context(context, why), operation, say):
        _say(done)


def _say(done: Ready) -> None:
    say(done.words)
    for words in done.unknown:
        say(f"unknown: {words}")
    for words in done.manual:
        say(f"by hand: {words}")
    if done.operation_id is None:
        say("nothing to do; nothing was recorded")
        return
    put(f"{done.operation_id}\n")
