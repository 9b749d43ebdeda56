"""`offsets set`: groups' offsets at the target, by its admin API."""

from functools import partial

import click

from ledger.answers.ledger import Ledger
from ledger.changeover.directions import require_settable
from ledger.cli.accepting import NEWER, OBJECTIVE, accept_option
from ledger.cli.configured import command_context
from ledger.cli.options import (
    as_of_option,
    partition_option,
    seconds_option,
    show_cut_option,
    table_options,
    why_options,
)
from ledger.cli.printing import Form, say, say_cut
from ledger.errors import MirrorLedgerError, PreconditionError, UnsafeError, UsageError
from ledger.facts.operations import Why
from ledger.offsets.between_clusters import Chosen, asked_way
from ledger.offsets.restored import require_read
from ledger.offsets.setting import ACCEPTABLE, NOT_COPIED, UNREAD_ADVICE, WITHOUT_OFFSET, Choice
from ledger.offsets.sheets import Asked, PositionSheet, position_sheet, set_positions, watch_for
from ledger.store.answers import MISSING_ROWS, require_complete
from ledger.words import listed

_SET = (
    "group_id string, source_topic string, source_partition bigint, target_topic string, target_partition bigint, "
    "former_offset bigint, target_offset bigint, status string, result string, repeated bigint, outputs string, "
    "group_type string"
)


@click.command(name="set")
@click.option("--from", "from_cluster", help="The cluster that groups leave.")
@click.option("--to", "to_cluster", help="The cluster where offsets are set, by all flows between the two.")
@click.option("--flow", help="Only what this flow copies, from its source to its target.")
@click.option("--group", "groups", multiple=True, help="This consumer group. Can be repeated.")
@click.option("--all-groups", is_flag=True, help="Every group that has a committed offset at the source.")
@click.option("--topic", help="Only this source topic.")
@partition_option
@as_of_option
@show_cut_option
@accept_option(
    (NEWER, OBJECTIVE),
    (*ACCEPTABLE, *WITHOUT_OFFSET, *UNREAD_ADVICE, NOT_COPIED, MISSING_ROWS),
    help="Set over newer commits, against an objective, or with this status (or leave the partition). Can be "
    "repeated.",
)
@seconds_option(
    "--watch",
    "watch_s",
    "Seconds for which commits have to stand still, before where groups leave and afterwards where they are set.",
    most=3600,
    is_more_than_least=True,
)
@click.option("--dry-run", is_flag=True, help="Hold it against the target; set and record nothing.")
@why_options
@table_options
@click.pass_context
def set_offsets(
    context: click.Context,
    from_cluster: str | None,
    to_cluster: str | None,
    flow: str | None,
    groups: tuple[str, ...],
    all_groups: bool,
    topic: str | None,
    partition: int | None,
    as_of: str | None,
    accepted: tuple[str, ...],
    overwrite_newer: bool,
    watch_s: float | None,
    despite_objectives: bool,
    dry_run: bool,
    why: Why,
    form: Form,
) -> None:
    """Set committed offsets of groups without members at a cluster, as translated from the ledger."""
    if bool(groups) == all_groups:
        raise UsageError(
            "offsets are set for --group (again for each) or --all-groups, one of both; none was set"
        )
    if partition is not None and topic is None:
        raise UsageError("--partition needs --topic; no offset was set")
    if watch_s is not None and dry_run:
        raise UsageError("--watch does not go with --dry-run; no offset was set")
    command = command_context(context, why)
    config = command.config
    choice = Choice(accepted, overwrite_newer=overwrite_newer)
    require = partial(require_settable, command, despite_objectives=despite_objectives)
    ledger = Ledger.open(config, as_of=as_of)
    require_complete(ledger.snapshot, accepted, undone="no offset was set")
    way = asked_way(config, ledger.snapshot, from_cluster, to_cluster, flow)
    require_read(ledger.snapshot, way.source, accepted, undone="no offset was set")
    asked = Asked(way, choice, Chosen(groups, topic, partition, flow), config.outputs_of_groups)
    watch = None if watch_s is None else watch_for(watch_s, say)
    operation_id, sheet, *_ = (
        (None, position_sheet(command, ledger.snapshot, asked))
        if dry_run
        else set_positions(
            command,
            ledger.snapshot,
            asked,
            before=watch,
            after=watch,
            require=partial(require, way),
        )
    )
    form.put_rows(sheet.lines, _SET)
    say_cut(lambda: ledger.cut, form.output)
    if dry_run:
        say("dry run: nothing was set or recorded")
        require(way, sheet.answers)
    if operation_id is not None:
        say(f"operation {operation_id}")
    if (left_out := _blocked(sheet)) is not None:
        raise left_out


def _blocked(sheet: PositionSheet) -> MirrorLedgerError | None:
    """Some left out is exit code 4, all of them 5."""
    if not sheet.blockers:
        return None
    left_out, total = len(sheet.left_out), len(sheet.settings)
    head = (
        f"from {sheet.from_cluster} to {sheet.to_cluster}: {left_out} of {total} offsets are not as answered:"
    )
    message = head, *listed(sheet.blockers)
    return PreconditionError(*message) if left_out == total else UnsafeError(*message)
