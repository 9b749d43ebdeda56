"""`adopt` and `resync-keys`: both sides of a flow compared record by record, and what that comes to recorded."""

import click

from ledger.adopt import adopting, key_resync
from ledger.adopt.adopting import Consent, Verdict, adopt_flow
from ledger.changeover.chained import adopt_chain
from ledger.cli.configured import command_context
from ledger.cli.options import partition_option, table_options
from ledger.cli.printing import Form, refuse_partitions, say
from ledger.errors import UsageError
from ledger.facts.operations import Why

_ADOPTED = (
    "source_topic string, partition bigint, target_topic string, verdict string, paired bigint, source_first bigint, "
    "source_last bigint, target_first bigint, target_last bigint, duplicates bigint, unmatched_source string, "
    "unmatched_target string, source_goes_on bigint, target_goes_on bigint, remarks string"
)
_RESYNCED = (
    "source_topic string, partition bigint, target_topic string, source_keys bigint, target_keys bigint, "
    "left_over bigint, tombstones bigint, target_first bigint, target_last bigint, remarks string"
)


@click.command()
@click.argument("flow")
@click.option("--topic", "topics", multiple=True, help="Only this source topic; may be given several times.")
@click.option("--dry-run", is_flag=True, help="Compare and report; claim and record nothing.")
@click.option(
    "--accept-missing", is_flag=True, help="Record source records that the target lacks as lost (skipped)."
)
@click.option(
    "--accept-foreign", is_flag=True, help="Continue after records of others at the end of the target."
)
@click.option(
    "--through",
    metavar="CLUSTER",
    help="By the maps of flows to and from this cluster, which is given up; nothing is compared.",
)
@table_options
@click.pass_context
def adopt(
    context: click.Context,
    flow: str,
    topics: tuple[str, ...],
    dry_run: bool,
    accept_missing: bool,
    accept_foreign: bool,
    through: str | None,
    form: Form,
) -> None:
    """Take over for FLOW the target topics that something else has filled; nothing is copied again."""
    if through is not None:
        if topics or dry_run or accept_missing or accept_foreign:
            raise UsageError("--through compares nothing: without other options; nothing was recorded")
        say(adopt_chain(command_context(context, Why(f"{through} is given up")), flow, through))
        return
    consent = Consent(missing=accept_missing, foreign=accept_foreign)
    opened = command_context(context)
    adoptions = adopt_flow(opened, flow, topics=topics, consent=consent, dry_run=dry_run)
    form.put_rows(map(adopting.result_row, adoptions), _ADOPTED)
    if dry_run:
        say("dry run: nothing was claimed or recorded")
    refused = {one.pair: one.remarks[0] for one in adoptions if one.verdict is Verdict.REFUSED}
    headline = f"{flow}: {len(refused)} of {len(adoptions)} partitions were not taken over"
    refuse_partitions(headline, refused, of=len(adoptions))


@click.command(name="resync-keys")
@click.argument("flow")
@click.option("--topic", required=True, help="The source topic; it must be compacted.")
@partition_option
@click.option("--dry-run", is_flag=True, help="Compare and report; claim, write and record nothing.")
@table_options
@click.pass_context
def resync_keys(
    context: click.Context, flow: str, topic: str, partition: int | None, dry_run: bool, form: Form
) -> None:
    """Write a tombstone to FLOW's target for every key alive there that the source has no record of."""
    opened = command_context(context)
    done = key_resync.resync_keys(opened, flow, topic=topic, partition=partition, dry_run=dry_run)
    form.put_rows(map(key_resync.result_row, done), _RESYNCED)
    if dry_run:
        say("dry run: nothing was claimed, written or recorded")
    refused = {keys.pair: keys.refused for keys in done if keys.refused is not None}
    headline = f"{flow}: keys of {len(refused)} of {len(done)} partitions may still differ"
    refuse_partitions(headline, refused, of=len(done))
