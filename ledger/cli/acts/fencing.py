"""`fence` and `unfence`: keep applications from writing to topics of a cluster, prove it, lift it.

What happens goes to stderr, the operation id to stdout. Exit codes: 0 fenced and proved, or continued without a proof
by an operator's word, or nothing to do; 1 the cluster does not answer; 2 usage; 4 not proved in time; 5 refused.
"""

from collections.abc import Callable, Sequence
from typing import Any

import click

from ledger.changeover.fencing import AskedLifting, fence_topics, unfence_topics
from ledger.changeover.measures import AskedFence
from ledger.cli.accepting import PRODUCERS_STOPPED, SUPER_USER, UNPROVEN, accept_option
from ledger.cli.configured import command_context
from ledger.cli.printing import put, say
from ledger.cli.why import required_why_options
from ledger.errors import UsageError
from ledger.facts.fences import FenceHow, QuietBounds
from ledger.facts.operations import Why
from ledger.machine import HookCommand, words_of

_SECONDS = click.FloatRange(min=0, min_open=True)
_BOUNDS = QuietBounds()


def _of_fences(command: Callable[..., None]) -> Callable[..., None]:
    """What both take: the cluster, the topics, why, and a hook."""
    for parameter in (
        required_why_options,
        click.option(
            "--hook-seconds",
            type=_SECONDS,
            default=300.0,
            show_default=True,
            help="End the hook after these.",
        ),
        click.option("--hook", metavar="COMMAND", help="Program and arguments, run without a shell."),
        click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated."),
        click.argument("cluster"),
    ):
        command = parameter(command)
    return click.pass_context(command)


@click.command()
@_of_fences
@click.option(
    "--how",
    type=click.Choice([str(how) for how in FenceHow]),
    default=str(FenceHow.CLOSED),
    show_default=True,
    help="By rules that deny writing, by max.message.bytes, or by the hook.",
)
@accept_option(
    (PRODUCERS_STOPPED, SUPER_USER, UNPROVEN),
    help="Your word: producers are stopped (--how shut), a super user does not write, to continue without a proof.",
)
@click.option(
    "--abort-open-transactions-after",
    "abort_after_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Abort what is open by then. Default: wait for it.",
)
@click.option(
    "--quiet-seconds",
    "least_s",
    type=_SECONDS,
    default=_BOUNDS.least_s,
    show_default=True,
    help="How long at least the fenced ends have to stand still, where no leader proves the fence.",
)
@click.option(
    "--most-quiet-seconds",
    "most_s",
    type=_SECONDS,
    default=_BOUNDS.most_s,
    show_default=True,
    help="How long at most, where writers pause for longer or nobody knows for how long.",
)
@click.option(
    "--wait", "wait_s", type=_SECONDS, default=300.0, show_default=True, help="Seconds for the proof."
)
def fence(
    context: click.Context,
    cluster: str,
    topics: Sequence[str],
    how: str,
    hook: str | None,
    hook_seconds: float,
    why: Why,
    least_s: float,
    most_s: float,
    **options: Any,
) -> None:
    """Keep applications from writing to topics of CLUSTER, by default all that flows read there, and prove it."""
    if most_s < least_s:
        raise UsageError("--most-quiet-seconds is less than --quiet-seconds; nothing was changed or recorded")
    asked = AskedFence(
        cluster=cluster,
        topics=tuple(topics),
        how=FenceHow(how),
        hook=_hook(hook, hook_seconds),
        quiet=QuietBounds(least_s, most_s),
        **options,
    )
    done = fence_topics(command_context(context, why), asked, say)
    _tell(done.operation_id, done.words)


@click.command()
@_of_fences
def unfence(
    context: click.Context,
    cluster: str,
    topics: Sequence[str],
    hook: str | None,
    hook_seconds: float,
    why: Why,
) -> None:
    """Lift fences of CLUSTER: remove the rules and set back the settings that their receipts list, nothing else."""
    asked = AskedLifting(cluster=cluster, topics=tuple(topics) or None, hook=_hook(hook, hook_seconds))
    done = unfence_topics(command_context(context, why), asked, say)
    _tell(done.operation_id, done.words)


def _hook(command: str | None, seconds: float) -> HookCommand | None:
    return None if command is None else HookCommand(words_of(command), seconds)


def _tell(operation_id: str | None, words: str) -> None:
    if operation_id is None:
        say(f"nothing to do: {words}; nothing was recorded")
        return
    say(words)
    put(f"{operation_id}\n")
