"""`promote` and `demote`: say that applications write at a cluster now, and no flow from the other one may."""

from collections.abc import Callable, Sequence

import click

from ledger.changeover.directions import change_direction
from ledger.changeover.pairs import Pair
from ledger.changeover.shut_out import ShutOutResult, shut_out
from ledger.cli.configured import command_context
from ledger.cli.printing import put, say
from ledger.cli.why import required_why_options
from ledger.context import Context
from ledger.errors import UnsafeError, UsageError
from ledger.facts.direction import Demoted, DirectionChange, Promoted
from ledger.facts.operations import Why


def _direction(command: Callable[..., None]) -> Callable[..., None]:
    """What both take: the clusters, the topics, and why."""
    for parameter in (
        required_why_options,
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
@click.option(
    "--no-reverse", is_flag=True, help="Nothing is to be mirrored back: status does not ask for it."
)
@click.option("--shut-out", "is_shut_out", is_flag=True, help="Wait for drivers, deny the mirror, prove it.")
@click.option(
    "--abort-marker",
    "with_markers",
    is_flag=True,
    help="With --shut-out: also end the flows' producer epochs at CLUSTER. It cannot be undone.",
)
@click.option(
    "--wait",
    "limit_s",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="With --shut-out: for drivers to stop.",
)
def promote(
    context: click.Context,
    cluster: str,
    former: str,
    topics: Sequence[str],
    why: Why,
    no_reverse: bool,
    is_shut_out: bool,
    with_markers: bool,
    limit_s: float,
) -> None:
    """Let CLUSTER be where applications write: flows into it from the other cluster stop, whatever restarts them."""
    if with_markers and not is_shut_out:
        raise UsageError("--abort-marker is a part of --shut-out; nothing was recorded")
    pair = Pair(cluster, former, tuple(topics) or None)
    command = command_context(context, why)
    promoted = _change(command, Promoted, pair, no_reverse=no_reverse)
    if not is_shut_out:
        return
    part = command.part_of(promoted)
    done = shut_out(part, pair, with_markers=with_markers, limit_s=limit_s, say=say)
    _tell(done, is_new=promoted is None)


def _tell(done: ShutOutResult, *, is_new: bool) -> None:
    for proof in done.recorded.proof or ():
        fences = " and ".join(proof.fences) or "nothing"
        proven = "proven" if proof.is_proven else "unproven"
        say(
            f"{proven}: {proof.topic} partition {proof.partition} of flow {proof.flow}: {proof.stopped}; {fences}"
        )
    say(done.words)
    if is_new:
        put(f"{done.operation_id}\n")
    if done.unproven:
        raise UnsafeError(f"it is promoted, and the shut-out is not proven: {done.unproven[0].reason}")


@click.command()
@_direction
@click.option(
    "--keep-ends", is_flag=True, help="Continue behind what was written at both sides meanwhile, by a cut."
)
def demote(
    context: click.Context, cluster: str, former: str, topics: Sequence[str], why: Why, keep_ends: bool
) -> None:
    """Take a promotion of CLUSTER back: flows into it from the other cluster continue."""
    pair = Pair(cluster, former, tuple(topics) or None)
    _change(command_context(context, why), Demoted, pair, keep_ends=keep_ends)


def _change(
    command: Context,
    kind: type[DirectionChange],
    pair: Pair,
    *,
    keep_ends: bool = False,
    no_reverse: bool = False,
) -> str | None:
    """Returns the operation, None: there was nothing to record."""
    changed = change_direction(command, kind, pair, keep_ends=keep_ends, no_reverse=no_reverse)
    if changed.operation_id is None:
        say(f"nothing to do: {changed.words}; nothing was recorded")
        return None
    say(changed.words)
    put(f"{changed.operation_id}\n")
    return changed.operation_id
