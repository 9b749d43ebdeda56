"""`apply`, `verify` and `undo`: a plan carried out, read back, and undone."""

import sys
import time

import click
from rich.console import Console

from ledger.app.changeover.applying import apply_plan
from ledger.app.changeover.planning import read_plan
from ledger.app.changeover.scene import Asked
from ledger.cli.configured import configuration
from ledger.cli.printing import asked_for, confirmed, say
from ledger.cli.why import required_why_options
from ledger.domain.changeover.steps import StepName
from ledger.errors import PreconditionError, UsageError
from ledger.operations.changeover.applying import Told


@click.command(name="apply")
@click.argument("plan_id")
@required_why_options
@click.option("--yes", is_flag=True, help="Ask nobody: what people do is done by hooks, or done already.")
@click.pass_context
def apply_command(context: click.Context, plan_id: str, reason: str, ticket: str | None, yes: bool) -> None:
    """Carry out the plan PLAN_ID, or continue it where it ended: one step after the other, each with a receipt."""
    config = configuration(context)
    plan = read_plan(config, plan_id).plan
    if not yes:
        target = plan.to_cluster
        require_typed(target, f"applications will move to {target}", without="carries the plan out")
    asked = Asked(reason, ticket, _said_by_hooks if yes else _ask)
    operation_id = apply_plan(config, plan_id, asked, lines(Console(stderr=True)))
    click.echo(operation_id)


def require_typed(name: str, outcome: str, *, without: str) -> None:
    """Have a person type the name of a cluster; raises `UsageError` for another one, or where nobody can be asked.

    `outcome`: what will be, `without`: what --yes does.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"there is nobody to ask: --yes {without} without questions; nothing was done")
    typed = asked_for(f"{outcome}; type its name to confirm")
    if typed != name:
        raise UsageError(f"{typed!r} is not {name!r}; nothing was done")


def _ask(what: str) -> str:
    if not confirmed(f"{what}?"):
        raise PreconditionError(f"not confirmed: {what}. Continue when it is so: mirror-ledger apply")
    return "confirmed by the operator"


def _said_by_hooks(_what: str) -> str:
    return "taken for done (--yes), proved by what follows"


def lines(console: Console) -> Told:
    """A line for each step, and what it waits for meanwhile."""
    began: dict[StepName, float] = {}
    status = console.status("")

    def begins(step: StepName) -> None:
        began[step] = time.monotonic()
        status.update(step.description)
        status.start()

    def waits(step: StepName, words: str) -> None:
        status.update(f"{step.description}: {words}")

    def ends(step: StepName, words: str, is_done: bool) -> None:
        status.stop()
        elapsed_s = time.monotonic() - began.get(step, time.monotonic())
        outcome = "" if is_done else "FAILED: "
        say(f"{elapsed_s:6.1f} s  {step}: {outcome}{words}")

    return Told(begins, waits, ends)
