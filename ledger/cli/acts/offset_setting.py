"""`offsets set`: groups' offsets at the target, by its admin API."""

from collections import Counter
from collections.abc import Sequence

import click
import pyarrow as pa

from ledger.api.ledger import Ledger
from ledger.app import group_offsets
from ledger.cli.answers.reading import as_of_option
from ledger.cli.configured import configuration
from ledger.cli.partitions import partition_option
from ledger.cli.printing import output_option, put, rendered, require_tables, say, wide_option
from ledger.errors import PreconditionError, UnsafeError, UsageError
from ledger.operations.offset_setting import ADVICE, Choice, Setting, result_row
from ledger.reports.rendering import ACCEPTABLE


@click.command(name="set")
@click.option("--flow", required=True, help="The flow whose map is used; offsets are set at its target.")
@click.option("--group", "groups", multiple=True, help="This consumer group. Can be repeated.")
@click.option("--all-groups", is_flag=True, help="Every group that has a committed offset at the source.")
@click.option("--topic", help="Only this source topic.")
@partition_option
@as_of_option
@click.option(
    "--accept",
    "accepted",
    type=click.Choice([str(status) for status in ACCEPTABLE]),
    multiple=True,
    help="A status with which an offset is set all the same. Can be repeated.",
)
@click.option("--overwrite-newer", is_flag=True, help="Overwrite commits at the target beyond the answer.")
@click.option("--dry-run", is_flag=True, help="Hold it against the target; set and record nothing.")
@click.option("--reason", help="Why, for the ledger.")
@click.option("--ticket", help="Reference to a ticket, for the ledger.")
@output_option
@wide_option
@click.pass_context
def set_offsets(
    context: click.Context,
    flow: str,
    groups: tuple[str, ...],
    all_groups: bool,
    topic: str | None,
    partition: int | None,
    as_of: str | None,
    accepted: tuple[str, ...],
    overwrite_newer: bool,
    dry_run: bool,
    reason: str | None,
    ticket: str | None,
    output: str,
    wide: bool,
) -> None:
    """Set committed offsets of groups without members at FLOW's target, as translated from the ledger."""
    if bool(groups) == all_groups:
        raise UsageError(
            "offsets are set for --group (again for each) or --all-groups, one of both; none was set"
        )
    if partition is not None and topic is None:
        raise UsageError("--partition needs --topic; no offset was set")
    require_tables(output, wide=wide)
    config = configuration(context)
    config.flow(flow)
    ledger = Ledger.open(config, as_of=as_of)
    answer = ledger.translate_groups(flow, groups=groups, topic=topic, partition=partition)
    operation_id, settings = group_offsets.set_offsets(
        config,
        ledger.snapshot,
        flow,
        answer.table,
        Choice(accepted, overwrite_newer=overwrite_newer),
        dry_run=dry_run,
        reason=reason,
        ticket=ticket,
    )
    table = pa.Table.from_pylist(list(map(result_row, settings)), schema=_SCHEMA)
    put(rendered(table, output, wide=wide))
    say(f"cut {ledger.cut}")
    if dry_run:
        say("dry run: nothing was set or recorded")
    if operation_id is not None:
        say(f"operation {operation_id}")
    _refuse_left_out(flow, settings)


def _refuse_left_out(flow: str, settings: Sequence[Setting]) -> None:
    """Some left out is exit code 4, all of them 5."""
    left_out = Counter(one.outcome for one in settings if not one.outcome.is_as_wanted)
    if not left_out:
        return
    lines = "\n  ".join(
        f"{count} {outcome}: {ADVICE[outcome]}" for outcome, count in sorted(left_out.items())
    )
    message = f"{flow}: {left_out.total()} of {len(settings)} offsets are not as answered:\n  {lines}"
    raise PreconditionError(message) if left_out.total() == len(settings) else UnsafeError(message)


_TEXT, _NUMBER = pa.string(), pa.int64()
_SCHEMA = pa.schema(
    {
        "group_id": _TEXT,
        "source_topic": _TEXT,
        "source_partition": _NUMBER,
        "target_topic": _TEXT,
        "target_partition": _NUMBER,
        "former_offset": _NUMBER,
        "target_offset": _NUMBER,
        "status": _TEXT,
        "result": _TEXT,
    }
)
