"""`remove-members`: static members of a group, whose consumers are stopped, removed by the broker."""

import click

from ledger.changeover.static_members import remove_members
from ledger.cli.configured import command_context
from ledger.cli.options import required_why_options
from ledger.cli.printing import put_operation
from ledger.errors import UnsafeError
from ledger.facts.operations import Why
from ledger.words import counted, shown


@click.command(name="remove-members")
@click.argument("cluster")
@click.option("--group", required=True, help="The consumer group.")
@click.option(
    "--instance",
    "instances",
    multiple=True,
    help="Only this group.instance.id; may be repeated. Default: all.",
)
@required_why_options
@click.pass_context
def remove_members_command(
    context: click.Context, cluster: str, group: str, instances: tuple[str, ...], why: Why
) -> None:
    """Remove static members of a group at CLUSTER whose consumers are stopped; one at work has to join again."""
    done = remove_members(command_context(context, why), cluster, group, instances)
    names = ", ".join(map(shown, done.removed))
    removed = f"{counted(len(done.removed), 'static member')} of group {shown(group)} removed"
    words = f"{removed}: {names}" if names else removed
    put_operation(done.operation_id, words, about=f"{cluster}: ")
    if done.refused:
        why_not = ", ".join(f"{shown(one)} ({error})" for one, error in done.refused.items())
        raise UnsafeError(f"not removed from group {shown(group)} of {cluster}: {why_not}")
