"""`fence` and `unfence`: keep applications from writing to topics of a cluster, prove it, lift it.

What happens goes to stderr, the operation id to stdout. Exit codes: 0 fenced and proved, or continued without a proof
by an operator's word, or nothing to do; 1 the cluster does not answer; 2 usage; 4 not proved in time; 5 refused.
"""

from collections.abc import Sequence
from typing import Any

import click

from ledger.changeover.fencing import fence_topics, unfence_topics
from ledger.changeover.holding import fence_and_hold, left_words, release_retention
from ledger.changeover.left_behind import left_groups
from ledger.changeover.measures import AskedFence
from ledger.cli.accepting import PRODUCERS_STOPPED, SUPER_USER, UNPROVEN, accept_option
from ledger.cli.configured import command_context
from ledger.cli.options import proving_options, required_why_options, seconds_option, together
from ledger.cli.printing import put_operation, say
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.fences import FenceHow, Proof
from ledger.facts.operations import Why
from ledger.machine import HookCommand, words_of

_of_fences = together(
    click.pass_context,
    click.argument("cluster"),
    click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated."),
    click.option("--hook", metavar="COMMAND", help="Program and arguments, run without a shell."),
    seconds_option(
        "--hook-seconds",
        "hook_seconds",
        "End the hook after these.",
        default=300.0,
        is_more_than_least=True,
    ),
    required_why_options,
)


@click.command()
@_of_fences
@click.option(
    "--how",
    type=click.Choice([str(how) for how in FenceHow]),
    default=str(FenceHow.CLOSED),
    show_default=True,
    help="By rules that deny writing, by max.message.bytes, or by the hook.",
)
@click.option("--reading", is_flag=True, help="Keep groups from reading too; --how closed.")
@click.option("--hold-retention", is_flag=True, help="Delete nothing by age or size until it is lifted.")
@accept_option(
    (PRODUCERS_STOPPED, SUPER_USER, UNPROVEN),
    help="Your word: producers are stopped (--how shut), a super user does not write, to continue without a proof.",
)
@proving_options
@seconds_option("--wait", "wait_s", "Seconds for the proof.", default=300.0, is_more_than_least=True)
def fence(
    context: click.Context,
    cluster: str,
    topics: Sequence[str],
    how: str,
    hook: str | None,
    hook_seconds: float,
    hold_retention: bool,
    why: Why,
    **options: Any,
) -> None:
    """Keep applications from writing to topics of CLUSTER, by default all that flows read there, and prove it."""
    asked = AskedFence(
        cluster=cluster,
        topics=tuple(topics),
        how=FenceHow(how),
        hook=_hook(hook, hook_seconds),
        **options,
    )
    opened = command_context(context, why)
    make = fence_and_hold if hold_retention else fence_topics
    done = make(opened, asked, say)
    put_operation(done.operation_id, done.words)
    if done.proof is Proof.UNPROVEN:
        return  # it may be away
    try:
        for line in left_words(opened, cluster, [one.topic for one in done.fences]):
            say(f"{line}; --hold-retention keeps it")
        for line in left_groups(opened, cluster, done.fences):
            say(line)
    except (ClusterUnavailableError, PreconditionError) as error:
        say(f"what applications have left at {cluster} is unknown: {error}")


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
    """Lift fences of CLUSTER: remove the rules and set back the settings that their receipts list, nothing else.

    Retention that was held is let go as well.
    """
    run, opened = _hook(hook, hook_seconds), command_context(context, why)
    done = unfence_topics(opened, cluster, topics or None, say, run)
    put_operation(done.operation_id, done.words)
    for released in release_retention(opened, cluster, topics or None, say):
        say(released)


def _hook(command: str | None, seconds: float) -> HookCommand | None:
    return None if command is None else HookCommand(words_of(command), seconds)
