"""`resync-keys`: delete keys at a target that its source deleted while the mirror could not see it."""

import click
import pyarrow as pa

from ledger.adopt import key_resync
from ledger.adopt.key_resync import result_row
from ledger.cli.acts.refusals import refuse_partitions
from ledger.cli.configured import configuration
from ledger.cli.partitions import partition_option
from ledger.cli.printing import output_option, put, rendered, require_tables, say, wide_option


@click.command(name="resync-keys")
@click.argument("flow")
@click.option("--topic", required=True, help="The source topic; it must be compacted.")
@partition_option
@click.option("--dry-run", is_flag=True, help="Compare and report; claim, write and record nothing.")
@output_option
@wide_option
@click.pass_context
def resync_keys(
    context: click.Context,
    flow: str,
    topic: str,
    partition: int | None,
    dry_run: bool,
    output: str,
    wide: bool,
) -> None:
    """Write a tombstone to FLOW's target for every key alive there that the source has no record of."""
    require_tables(output, wide=wide)
    config = configuration(context)
    done = key_resync.resync_keys(config, flow, topic=topic, partition=partition, dry_run=dry_run)
    table = pa.Table.from_pylist([result_row(keys) for keys in done], schema=_SCHEMA)
    put(rendered(table, output, wide=wide))
    if dry_run:
        say("dry run: nothing was claimed, written or recorded")
    refused = {keys.pair: keys.refused for keys in done if keys.refused is not None}
    headline = f"{flow}: keys of {len(refused)} of {len(done)} partitions may still differ"
    refuse_partitions(headline, refused, of=len(done))


_TEXT, _NUMBER = pa.string(), pa.int64()
_SCHEMA = pa.schema(
    {
        "source_topic": _TEXT,
        "partition": _NUMBER,
        "target_topic": _TEXT,
        "source_keys": _NUMBER,
        "target_keys": _NUMBER,
        "left_over": _NUMBER,
        "tombstones": _NUMBER,
        "target_first": _NUMBER,
        "target_last": _NUMBER,
        "remarks": _TEXT,
    }
)
