"""Which way clusters are mirrored: `promote`, `demote`, the `cut` between them, and `accept-cluster`."""

from collections.abc import Sequence

import click

from ledger.changeover import directions
from ledger.changeover.cut import cut_of_pair
from ledger.changeover.directions import change_direction
from ledger.changeover.pairs import Pair
from ledger.changeover.shut_out import shut_out
from ledger.cli.configured import command_context
from ledger.cli.options import LEAST_QUIET_S, required_why_options, seconds_option, together
from ledger.cli.printing import put, put_operation, say
from ledger.errors import UnsafeError, UsageError
from ledger.facts.direction import Demoted, Promoted
from ledger.facts.operations import Why
from ledger.store.session import random_id

_direction = together(
    click.pass_context,
    click.argument("cluster"),
    click.option("--over", "former", required=True, help="The cluster where applications wrote before."),
    click.option(
        "--topic", "topics", multiple=True, help="Only this topic of CLUSTER; may be repeated. Default: all."
    ),
    required_why_options,
)


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
@seconds_option("--wait", "limit_s", "With --shut-out: for drivers to stop.", default=120.0)
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
    promoted = change_direction(command, Promoted, pair, no_reverse=no_reverse)
    put_operation(promoted.operation_id, promoted.words)
    if not is_shut_out:
        return
    part = command.part_of(promoted.operation_id)
    done = shut_out(part, pair, with_markers=with_markers, limit_s=limit_s, say=say)
    for proof in done.recorded.proof or ():
        fences = " and ".join(proof.fences) or "nothing"
        proven = "proven" if proof.is_proven else "unproven"
        say(
            f"{proven}: {proof.topic} partition {proof.partition} of flow {proof.flow}: {proof.stopped}; {fences}"
        )
    say(done.words)
    if promoted.operation_id is None:
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
    changed = change_direction(command_context(context, why), Demoted, pair, keep_ends=keep_ends)
    put_operation(changed.operation_id, changed.words)


@click.command()
@click.option("--from", "source", required=True, help="The cluster that flows copied from.")
@click.option("--to", "target", required=True, help="The cluster that they copied to.")
@click.option(
    "--topic", "topics", multiple=True, help="Only this topic of the target; may be repeated. Default: all."
)
@click.option("--operation", help="Record it for this operation, once. Default: an operation of its own.")
@seconds_option(
    "--quiet-seconds",
    "quiet_s",
    "For so long nothing may come to either side, or the cut is refused.",
    default=2.0,
    least=LEAST_QUIET_S,
    most=3600,
)
@click.pass_context
def cut(
    context: click.Context,
    source: str,
    target: str,
    topics: Sequence[str],
    operation: str | None,
    quiet_s: float,
) -> None:
    """Record where source and target of a pair stand, partition by partition, with the map between them."""
    pair = Pair(target, source, tuple(topics) or None)
    taken = cut_of_pair(
        command_context(context), pair, operation_id=operation or random_id(), quiet_s=quiet_s
    )
    say(taken.words)
    no_start = taken.facts["no_start"]
    for why in no_start if isinstance(no_start, list) else ():
        say(f"no way back from some partitions: {why}")
    put(f"{taken.operation_id}\n")


@click.command(name="accept-cluster")
@click.argument("cluster")
@click.option("--cluster-id", required=True, help="The Kafka cluster id that answers behind CLUSTER now.")
@click.option("--rebuilt", is_flag=True, help="It was formatted again under the id that the ledger knows.")
@required_why_options
@click.pass_context
def accept_cluster(context: click.Context, cluster: str, cluster_id: str, rebuilt: bool, why: Why) -> None:
    """Let CLUSTER, an alias of the configuration, stand for the cluster that answers there now."""
    accepted = directions.accept_cluster(command_context(context, why), cluster, cluster_id, rebuilt=rebuilt)
    put_operation(accepted.operation_id, accepted.words, about=f"{cluster}: ")
