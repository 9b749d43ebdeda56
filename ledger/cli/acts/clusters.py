"""`accept-cluster`: say that another cluster behind an alias, or one that was formatted again, is meant."""

import click

from ledger.changeover import directions
from ledger.cli.configured import command_context
from ledger.cli.printing import put, say
from ledger.cli.why import required_why_options
from ledger.facts.operations import Why


@click.command(name="accept-cluster")
@click.argument("cluster")
@click.option("--cluster-id", required=True, help="The Kafka cluster id that answers behind CLUSTER now.")
@click.option("--rebuilt", is_flag=True, help="It was formatted again under the id that the ledger knows.")
@required_why_options
@click.pass_context
def accept_cluster(context: click.Context, cluster: str, cluster_id: str, rebuilt: bool, why: Why) -> None:
    """Let CLUSTER, an alias of the configuration, stand for the cluster that answers there now."""
    accepted = directions.accept_cluster(command_context(context, why), cluster, cluster_id, rebuilt=rebuilt)
    if accepted.operation_id is None:
        say(f"{cluster}: nothing to do: {accepted.words}; nothing was recorded")
        return
    say(accepted.words)
    put(f"{accepted.operation_id}\n")
