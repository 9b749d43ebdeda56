"""`apply`, `undo` and `verify`: a plan carried out, undone, and read back."""

import sys
from dataclasses import asdict

import click

from ledger.changeover.applying import apply_plan
from ledger.changeover.checks import CheckStatus
from ledger.changeover.losses import TAKEN_FOR_DONE
from ledger.changeover.receipts import Waits
from ledger.changeover.seeing import plans_to_apply, read_plan
from ledger.changeover.undoing import OnFailure, plan_of_operation, undo_apply
from ledger.changeover.verifying import verify_changeover
from ledger.cli.changeover.followed import Followed
from ledger.cli.configured import command_context
from ledger.cli.options import required_why_options, table_options
from ledger.cli.printing import Form, asked_for, put, say
from ledger.context import Context
from ledger.errors import UnsafeError, UsageError
from ledger.facts.operations import Why
from ledger.machine import account
from ledger.words import counted, duration, listed

_RECENT_S = 3600.0


@click.command(name="apply")
@click.argument("plan_id", required=False)
@required_why_options
@click.option("--yes", is_flag=True, help="Ask nobody: what people do is done by hooks, or done already.")
@click.pass_context
def apply_command(context: click.Context, plan_id: str | None, why: Why, yes: bool) -> None:
    """Carry out the plan PLAN_ID, or continue it where it ended: one step after the other, each with a receipt.

    Without an id it is the one plan that can be carried out or continued; with --yes only one that you made within the
    last hour.
    """
    command = command_context(context, why)
    plan_id = plan_id or _only_plan(command, is_own=yes)
    plan = read_plan(command, plan_id).plan
    for step in plan.steps:
        if step in plan.hooks:
            say(f"at {step} this is run here, as you: {plan.hooks[step]}")
    if not yes:
        target = plan.to_cluster
        _require_typed(target, f"applications will move to {target}", without="carries the plan out")
    followed = Followed()
    confirm = _said_by_hooks if yes else followed.ask
    put(f"{apply_plan(command, plan_id, confirm, followed.reports)}\n")


def _only_plan(command: Context, *, is_own: bool) -> str:
    """The id of the one plan that is meant where nobody names one; raises `UsageError` where there is no such plan.

    `is_own`: only one that this account has made within the last hour.
    """
    found, now_ms = plans_to_apply(command), command.clock.now_ms()
    ages_s = [(now_ms - row["recorded_at_ms"]) / 1000 for row in found]
    lines = [
        f"{row['plan_id']}: {row['kind']} from {row['from']} to {row['to']}, planned by {row['operator']} "
        f"{duration(age_s)} ago"
        for row, age_s in zip(found, ages_s, strict=True)
    ]
    if len(found) != 1:
        which = f"{len(found)} plans can be carried out, name one:" if found else "no plan can be carried out"
        raise UsageError(which, *listed(lines), "Nothing was done; mirror-ledger plan list shows all plans")
    [row], [age_s] = found, ages_s
    if is_own and (row["operator"] != account() or age_s > _RECENT_S):
        raise UsageError(
            "without its id --yes carries out only a plan that you made within the last hour, not",
            *listed(lines),
        )
    say(f"plan {lines[0]}")
    return str(row["plan_id"])


def _said_by_hooks(_what: str, _waits: Waits) -> str:
    return TAKEN_FOR_DONE


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
        _require_typed(source, f"applications will be back at {source}", without="takes it back")
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


def _require_typed(name: str, outcome: str, *, without: str) -> None:
    """Have a person type the name of a cluster; raises `UsageError` for another one, or where nobody can be asked.

    `outcome`: what will be, `without`: what --yes does.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"there is nobody to ask: --yes {without} without questions; nothing was done")
    typed = asked_for(f"{outcome}; type its name to confirm")
    if typed != name:
        raise UsageError(f"{typed!r} is not {name!r}; nothing was done")


@click.command()
@click.argument("name", metavar="ID")
@table_options
@click.pass_context
def verify(context: click.Context, name: str, form: Form) -> None:
    """Read back what an operation of `apply` has made, by its ID."""
    checks = verify_changeover(command_context(context), name)
    form.put_rows(map(asdict, checks), "check string, subject string, status string, words string")
    wrong = sum(one.status is CheckStatus.NOT_OK for one in checks)
    unknown = sum(one.status is CheckStatus.UNKNOWN for one in checks)
    if wrong or unknown:
        raise UnsafeError(f"of {counted(len(checks), 'check')} {wrong} are not ok, and {unknown} unknown")
