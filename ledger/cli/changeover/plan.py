"""`plan`: what a change of direction would do, what stands against it, and what it would cost. It changes nothing."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ledger.answers.flow_status import open_apply
from ledger.changeover import seeing
from ledger.changeover.approving import approve_plan
from ledger.changeover.plans import ChangeoverKind, Choices, StepName
from ledger.changeover.text import (
    ShownPlan,
    next_words,
    plan_json,
    plan_markdown,
    plan_table,
    rendered_rows,
)
from ledger.cli.accepting import LOST_WITH_TOPIC, OF_PLANS, SOURCE_ANSWERS, STATUSES_OF_PLANS, accept_option
from ledger.cli.changeover.choosing import chosen, fence_option, scope_options
from ledger.cli.configured import command_context
from ledger.cli.options import (
    as_of_option,
    deficits_option,
    extras_option,
    output_option,
    proving_options,
    required_why_options,
    seconds_option,
    show_cut_option,
    table_options,
    together,
    why_options,
)
from ledger.cli.printing import Form, put, require_tables, say, say_cut, terminal_width
from ledger.config.mirror import MirrorConfig
from ledger.config.values import SecretReference
from ledger.errors import UnsafeError, UsageError
from ledger.facts.operations import Why
from ledger.facts.ways import Direction
from ledger.machine import words_of
from ledger.offsets.sheets import quiet_seconds

_ACCEPT = "Continue although this stands against it, or with groups of this status. Can be repeated."
_FORMS = {"json": plan_json, "md": plan_markdown}
_plan_output = output_option(*_FORMS)
_plan_wide = click.option("--wide", is_flag=True, help="Everything, a line for each, however long.")


def _put_plan(of: ShownPlan, output: str, *, wide: bool) -> None:
    if output == "table":
        put(plan_table(of, width=None if wide else terminal_width()))
    else:
        put(_FORMS[output](of))


@click.group()
def plan() -> None:
    """Plan a change of direction, and show plans."""


_hooking = together(
    seconds_option(
        "--hook-seconds",
        "hook_seconds",
        "End a hook after these, with what it started.",
        default=600.0,
        is_more_than_least=True,
    ),
    click.option(
        "--hook",
        "hooks",
        multiple=True,
        metavar="STEP=COMMAND",
        help="An external command for a step. Can be repeated. It is recorded: no secrets.",
    ),
)
_within = click.option(
    "--within",
    type=click.IntRange(min=0),
    default=1_000,
    show_default=True,
    metavar="OFFSETS",
    help="How many may be left to copy behind.",
)
_planning = together(
    click.pass_context,
    click.option("--from", "source", required=True, help="The cluster that applications leave."),
    click.option("--to", "target", required=True, help="The cluster that applications go to."),
    scope_options,
    seconds_option(
        "--wait-drain",
        "drain_seconds",
        "How long to wait until all is copied, and the mirror has stopped.",
        default=300.0,
        least=1,
    ),
    seconds_option(
        "--watch",
        "watch_seconds",
        "For so long commits have to stand still before groups are set, and to stay afterwards. Default: two "
        "intervals of the recorders; 0: nobody watches.",
        most=3600,
    ),
    seconds_option(
        "--wait-groups",
        "groups_seconds",
        "How long to wait until the groups are at rest.",
        default=300.0,
        least=1,
    ),
    seconds_option(
        "--wait-progress",
        "progress_seconds",
        "How long to watch for the groups' first commits at the target.",
        default=0.0,
    ),
    fence_option,
    proving_options,
    click.option("--no-reverse", is_flag=True, help="Nothing is to be mirrored back afterwards."),
    click.option(
        "--abort-marker",
        is_flag=True,
        help="Shut the mirror out by an abort marker as well. It cannot be undone.",
    ),
    _hooking,
    as_of_option,
    why_options,
    show_cut_option,
    _plan_wide,
    _plan_output,
)


@plan.command()
@_planning
@accept_option(OF_PLANS, STATUSES_OF_PLANS, help=_ACCEPT)
def switchover(context: click.Context, **options: Any) -> None:
    """Move applications while both clusters answer: nothing is lost."""
    _plan(context, ChangeoverKind.SWITCHOVER, options)


@plan.command()
@_planning
@accept_option((*OF_PLANS, SOURCE_ANSWERS), STATUSES_OF_PLANS, help=_ACCEPT)
def failover(context: click.Context, **options: Any) -> None:
    """Move applications by what the ledger knows: the source is lost, for now or for ever."""
    _plan(context, ChangeoverKind.FAILOVER, options)


@plan.command()
@_planning
@extras_option
@deficits_option
@click.option(
    "--stop-before",
    type=click.Choice(["switch"]),
    help="Applications stay where they are: --to is mirrored to, and protects them. Plan again without it to go home.",
)
@_within
@accept_option((*OF_PLANS, LOST_WITH_TOPIC), STATUSES_OF_PLANS, help=_ACCEPT)
def failback(context: click.Context, stop_before: str | None, **options: Any) -> None:
    """Go home to a cluster that was lost and is back: it gets what was written since, then applications move."""
    _plan(context, ChangeoverKind.FAILBACK, {**options, "stays": stop_before is not None})


@plan.command()
@click.pass_context
@click.option("--from", "source", required=True, help="The cluster where applications write.")
@click.option(
    "--to", "target", required=True, help="The cluster that is to protect it: empty, or formatted again."
)
@click.option("--topic", "topics", multiple=True, help="Only this topic of the target. Can be repeated.")
@_within
@_hooking
@as_of_option
@why_options
@show_cut_option
@_plan_wide
@_plan_output
def protect(
    context: click.Context, topics: tuple[str, ...], within: int, hook_seconds: float, **options: Any
) -> None:
    """Let another cluster protect the one where applications write: it gets all that flows copy; nobody moves."""
    choices = chosen(topics=topics, within=within, hook_seconds=hook_seconds)
    _put_made(context, ChangeoverKind.PROTECT, options, lambda _config, _pair: choices)


@plan.command(name="list")
@table_options
@click.pass_context
def list_plans(context: click.Context, form: Form) -> None:
    """All plans of the ledger, and how far each was carried out."""
    put(rendered_rows(seeing.plan_rows(command_context(context)), form.output))


@plan.command()
@click.argument("plan_id")
@_plan_output
@_plan_wide
@click.pass_context
def show(context: click.Context, plan_id: str, output: str, wide: bool) -> None:
    """A recorded plan: its steps, what stood against it, its forecast, and the receipts of its steps."""
    require_tables(output, wide=wide)
    command = command_context(context)
    found = seeing.read_plan(command, plan_id)
    recorded, applies = found.recorded, found.applies.of_plan(plan_id)
    begun = None
    if found.applies.open() in applies:
        begun = open_apply(command.snapshot(), at_ms=command.clock.now_ms(), is_now=True, flows=())
    of = ShownPlan(
        *(found.plan, recorded.forecast, recorded.blockers, applies),
        lacking=found.approvals.lacking,
        is_at_work=begun is not None and not begun.is_left,
    )
    _put_plan(of, output, wide=wide)
    for words in found.approvals.void:
        say(words)


@plan.command()
@click.argument("plan_id")
@click.option(
    "--key",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with your own private key: PEM, without a password. It is read, and kept nowhere.",
)
@required_why_options
@click.pass_context
def approve(context: click.Context, plan_id: str, key: Path, why: Why) -> None:
    """Say, by a signature, that you have read PLAN_ID and stand behind it: where [approvals] asks for more people."""
    command = command_context(context, why)
    person, operation_id = approve_plan(command, plan_id, SecretReference(file=str(key)).resolve({}))
    if operation_id is None:
        say(f"{person} has approved plan {plan_id} before: nothing to do; nothing was recorded")
        return
    put(f"{operation_id}\n")
    approvals = seeing.read_plan(command, plan_id).approvals
    say(f"{person} stands behind plan {plan_id}; people that are lacking: {approvals.lacking}")


def _plan(context: click.Context, kind: ChangeoverKind, options: dict[str, Any]) -> None:
    common = {name: options.pop(name) for name in _COMMON}
    _put_made(context, kind, common, lambda config, pair: _choices(config, pair, options))


_COMMON = ("output", "as_of", "wide", "why", "source", "target", "hooks")


def _choices(config: MirrorConfig, pair: Direction, options: dict[str, Any]) -> Choices:
    watch_s, quiet = options.pop("watch_seconds"), options.pop("quiet")
    return chosen(
        abort_transactions_after=options.pop("abort_after_s"),
        quiet_seconds=quiet.least_s,
        most_quiet_seconds=quiet.most_s,
        reverse=not options.pop("no_reverse"),
        watch_seconds=quiet_seconds(config, pair) if watch_s is None else watch_s,
        **options,
    )


def _put_made(
    context: click.Context,
    kind: ChangeoverKind,
    options: Mapping[str, Any],
    choose: Callable[[MirrorConfig, Direction], Choices],
) -> None:
    """Make a plan, record it where it is one of now, and print it."""
    output, as_of, wide = options["output"], options["as_of"], options["wide"]
    require_tables(output, wide=wide)
    command = command_context(context, options["why"])
    pair = Direction(options["source"], options["target"])
    hooks, choices = _hooks(options["hooks"]), choose(command.config, pair)
    made = seeing.make_plan(command, kind, pair, choices, hooks, as_of=as_of)
    if as_of is None:
        seeing.record_plan(command, made)
    is_recorded = as_of is None
    asks = command.config.approvals.plan > 1 and is_recorded
    lacking = seeing.read_plan(command, made.plan.plan_id).approvals.lacking if asks else 0
    of = ShownPlan(made.plan, made.forecast, made.recorded_blockers, is_recorded=is_recorded, lacking=lacking)
    _put_plan(of, output, wide=wide)
    say_cut(lambda: made.seen.cut, output)
    if made.blockers:
        raise UnsafeError(
            f"plan {made.plan.plan_id} is blocked: {', '.join(made.plan.blockers)}; nothing was changed"
        )
    if output != "table":
        for words in next_words(of):
            say(words)


def _hooks(given: Sequence[str]) -> Mapping[StepName, str]:
    found: dict[StepName, str] = {}
    for text in given:
        name, _, command = text.partition("=")
        if name not in tuple(StepName):
            raise UsageError(
                f"--hook takes STEP=COMMAND, got {text!r}; steps: {', '.join(StepName)}; nothing was planned"
            )
        if name in found:
            raise UsageError(f"--hook {name} is given twice; nothing was planned")
        words_of(command)
        found[StepName(name)] = command
    return found
