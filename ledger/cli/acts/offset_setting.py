"""`offsets set`: groups' offsets at the target, by its admin API."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

import click

from ledger.answers.ledger import Ledger
from ledger.changeover.directions import require_settable
from ledger.cli.accepting import NEWER, OBJECTIVE, accept_option
from ledger.cli.answers.offsets import NAME_MAPS, asked_maps
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
from ledger.facts.direction import Direction
from ledger.facts.operations import Why
from ledger.offsets import flow_answers
from ledger.offsets.flow_answers import Chosen
from ledger.offsets.restored import require_read
from ledger.offsets.setting import (
    ACCEPTABLE,
    ADVICE,
    NOT_COPIED,
    UNREAD_ADVICE,
    WITHOUT_OFFSET,
    Choice,
    Setting,
    result_row,
)
from ledger.offsets.sheets import Asked, PositionSheet, position_sheet, set_positions, watch_for
from ledger.store.answers import MISSING_ROWS, require_complete
from ledger.words import listed

_SET = (
    "group_id string, source_topic string, source_partition bigint, target_topic string, target_partition bigint, "
    "former_offset bigint, target_offset bigint, status string, result string"
)


@click.command(name="set")
@click.option("--flow", help="The flow whose map alone is used; offsets are set at its target.")
@click.option("--from", "from_cluster", help="With --to: the cluster that groups leave.")
@click.option("--to", "to_cluster", help="With --from: the cluster where offsets are set, by all flows.")
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
    "With --from and --to: seconds for which commits have to stand still, before there and afterwards here.",
    most=3600,
    is_more_than_least=True,
)
@click.option("--dry-run", is_flag=True, help="Hold it against the target; set and record nothing.")
@why_options
@table_options
@click.pass_context
def set_offsets(
    context: click.Context,
    flow: str | None,
    from_cluster: str | None,
    to_cluster: str | None,
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
    asked = asked_maps(flow, from_cluster, to_cluster)
    if asked is None:
        raise UsageError(f"{NAME_MAPS}; no offset was set")
    if bool(groups) == all_groups:
        raise UsageError(
            "offsets are set for --group (again for each) or --all-groups, one of both; none was set"
        )
    if partition is not None and topic is None:
        raise UsageError("--partition needs --topic; no offset was set")
    if watch_s is not None and (dry_run or isinstance(asked, str)):
        raise UsageError("--watch goes with --from and --to, and without --dry-run; no offset was set")
    command = command_context(context, why)
    config = command.config
    choice = Choice(accepted, overwrite_newer=overwrite_newer)
    require = partial(require_settable, command, despite_objectives=despite_objectives)
    ledger = Ledger.open(config, as_of=as_of)
    require_complete(ledger.snapshot, accepted, undone="no offset was set")
    if isinstance(asked, str):
        require_read(ledger.snapshot, config.flow(asked).source, accepted, undone="no offset was set")
        answer = ledger.translate_groups(asked, groups=groups, topic=topic, partition=partition).table
        way, answers = Direction(config.flow(asked).source, config.flow(asked).target), answer.to_pylist()
        if not dry_run:
            require(way, answers)
        operation_id, settings = flow_answers.set_offsets(
            command, ledger.snapshot, asked, answer, choice, dry_run=dry_run
        )
        form.put_rows(map(result_row, settings), _SET)
        left_out = _left_out(asked, settings)
    else:
        require_read(ledger.snapshot, asked[0], accepted, undone="no offset was set")
        watch = None if watch_s is None else watch_for(watch_s, say)
        of_all = Asked(Direction(*asked), choice, Chosen(groups, topic, partition), config.outputs_of_groups)
        operation_id, sheet, *_ = (
            (None, position_sheet(command, ledger.snapshot, of_all))
            if dry_run
            else set_positions(
                command,
                ledger.snapshot,
                of_all,
                before=watch,
                after=watch,
                require=lambda found: require(of_all.way, found.answers),
            )
        )
        form.put_rows(sheet.lines, f"{_SET}, repeated bigint, outputs string, group_type string")
        left_out = _blocked(sheet)
        way, answers = of_all.way, sheet.answers
    say_cut(lambda: ledger.cut, form.output)
    if dry_run:
        say("dry run: nothing was set or recorded")
        require(way, answers)
    if operation_id is not None:
        say(f"operation {operation_id}")
    if left_out is not None:
        raise left_out


def _left_out(flow: str, settings: Sequence[Setting]) -> MirrorLedgerError | None:
    """Some left out is exit code 4, all of them 5."""
    left_out = Counter(one.outcome for one in settings if not one.outcome.is_as_wanted)
    lines = [f"{count} {outcome}: {ADVICE[outcome]}" for outcome, count in sorted(left_out.items())]
    return _refusal(flow, left_out.total(), len(settings), lines)


def _blocked(sheet: PositionSheet) -> MirrorLedgerError | None:
    """The same of all flows between two clusters."""
    name = f"from {sheet.from_cluster} to {sheet.to_cluster}"
    return _refusal(name, len(sheet.left_out), len(sheet.settings), sheet.blockers)


def _refusal(name: str, left_out: int, total: int, lines: Sequence[str]) -> MirrorLedgerError | None:
    if not lines:
        return None
    message = f"{name}: {left_out} of {total} offsets are not as answered:", *listed(lines)
    return PreconditionError(*message) if left_out == total else UnsafeError(*message)
