"""`undo`: what an apply has changed is undone, until applications write at the target."""

import click

from ledger.changeover.undoing import OnFailure, plan_of_operation, undo_apply
from ledger.cli.changeover.apply import require_typed
from ledger.cli.changeover.followed import Followed
from ledger.cli.configured import command_context
from ledger.cli.printing import put, say
from ledger.cli.why import required_why_options
from ledger.errors import UnsafeError
from ledger.facts.operations import Why


@click.command()
@click.argument("operation")
@required_why_options
@click.option("--yes", is_flag=True, help="Ask nobody.")
@click.option(
    "--leave",
    "on_failure",
    flag_value=OnFailure.LEAVE,
    type=OnFailure,
    default=OnFailure.STOP,
    help="Leave what cannot be undone as it is, and end: for an apply that has not come to its end.",
)
@click.pass_context
def undo(context: click.Context, operation: str, why: Why, yes: bool, on_failure: OnFailure) -> None:
    """Undo what the apply OPERATION has changed, in reverse order; refused once applications write there."""
    command = command_context(context, why)
    source = plan_of_operation(command, operation).from_cluster
    if not yes:
        require_typed(source, f"applications will be back at {source}", without="takes it back")
    done = undo_apply(command, operation, Followed().reports, on_failure=on_failure)
    if done is None:
        say(f"operation {operation} was undone before: nothing to do; nothing was recorded")
        return
    put(f"{operation}\n")
    if done.left:
        raise UnsafeError(
            "not all is as it was before: "
            + "; ".join(f"{step}: {done.words[step]}" for step in done.left)
            + ". The apply is over, and is not undone a second time"
        )
