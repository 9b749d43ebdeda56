"""`apply`: a plan carried out."""

import sys

import click

from ledger.changeover.applying import apply_plan
from ledger.changeover.losses import TAKEN_FOR_DONE
from ledger.changeover.receipts import Waits
from ledger.changeover.seeing import read_plan
from ledger.cli.changeover.followed import Followed
from ledger.cli.configured import command_context
from ledger.cli.printing import asked_for, put, say
from ledger.cli.why import required_why_options
from ledger.errors import UsageError
from ledger.facts.operations import Why


@click.command(name="apply")
@click.argument("plan_id")
@required_why_options
@click.option("--yes", is_flag=True, help="Ask nobody: what people do is done by hooks, or done already.")
@click.pass_context
def apply_command(context: click.Context, plan_id: str, why: Why, yes: bool) -> None:
    """Carry out the plan PLAN_ID, or continue it where it ended: one step after the other, each with a receipt."""
    command = command_context(context, why)
    plan = read_plan(command, plan_id).plan
    for step in plan.steps:
        if step in plan.hooks:
            say(f"at {step} this is run here, as you: {plan.hooks[step]}")
    if not yes:
        target = plan.to_cluster
        require_typed(target, f"applications will move to {target}", without="carries the plan out")
    followed = Followed()
    confirm = _said_by_hooks if yes else followed.ask
    put(f"{apply_plan(command, plan_id, confirm, followed.reports)}\n")


def require_typed(name: str, outcome: str, *, without: str) -> None:
    """Have a person type the name of a cluster; raises `UsageError` for another one, or where nobody can be asked.

    `outcome`: what will be, `without`: what --yes does.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"there is nobody to ask: --yes {without} without questions; nothing was done")
    typed = asked_for(f"{outcome}; type its name to confirm")
    if typed != name:
        raise UsageError(f"{typed!r} is not {name!r}; nothing was done")


def _said_by_hooks(_what: str, _waits: Waits) -> str:
    return TAKEN_FOR_DONE
