"""Options that several commands take, each said once."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from ledger.cli.printing import SHOW_CUT, Form, asked_for, require_tables
from ledger.errors import UsageError

Command = Callable[..., None]
Parameter = Callable[[Command], Command]

PARTITION = click.IntRange(0, 2**31 - 1)
OFFSET = click.IntRange(0, 2**63 - 1)
"""Within what Kafka has."""

partition_option = click.option("--partition", type=PARTITION, help="Only this partition of the topic.")
as_of_option = click.option(
    "--as-of", help="A time (ISO-8601 with offset, or epoch ms), an operation id or a cut token; default now."
)
since_option = click.option(
    "--since",
    help="Audit what came after this cut alone: a time, an operation id or a cut token; default all rows.",
)
wide_option = click.option(
    "--wide", is_flag=True, help="Tables with every column, a line for each row, however wide."
)


def together(*parameters: Parameter) -> Parameter:
    """All of them, in this order."""

    def added(command: Command) -> Command:
        for parameter in reversed(parameters):
            command = parameter(command)
        return command

    return added


def output_option(*forms: str) -> Parameter:
    """`-o`, a table unless another form is asked for."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", *forms]),
        default="table",
        show_default=True,
        help="How it is printed.",
    )


_A_WEEK_S = 604_800.0
LEAST_QUIET_S = 0.1
"""Ends that were read twice within less were read once, as far as what comes to them is concerned."""


class _Seconds(click.FloatRange):
    """Within a range, in which what is no number is not: it is neither less nor more than anything."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        seconds: float = super().convert(value, parameter, context)
        if seconds != seconds:
            self.fail(f"{value} is not in the range {self._describe_range()}.", parameter, context)
        return seconds


def seconds_option(
    name: str,
    argument: str,
    help: str,
    *,
    default: float | None = None,
    least: float = 0,
    most: float = _A_WEEK_S,
    is_more_than_least: bool = False,
) -> Parameter:
    return click.option(
        name,
        argument,
        type=_Seconds(min=least, max=most, min_open=is_more_than_least),
        default=default,
        show_default=bool(default),
        metavar="SECONDS",
        help=help,
    )


def wait_option(what: str) -> Parameter:
    """How many seconds to wait for what was asked for; 0, the default: not at all."""
    return seconds_option("--wait", "wait_s", what, default=0)


def _remember(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    context.meta[SHOW_CUT] = is_asked


show_cut_option = click.option(
    "--show-cut",
    is_flag=True,
    expose_value=False,
    callback=_remember,
    help="Print the token of the cut, which --as-of takes, on stderr; -o json has it there in any case.",
)


def time_of(option: str, text: str, *, undone: str) -> int:
    """A time that was given to an option, ms; raises `UsageError` for what is none, with what was not done."""
    from ledger.store.snapshots import parse_time  # commands that are given no time would wait for it

    at_ms = parse_time(text)
    if at_ms is None:
        raise UsageError(
            f"{option} takes a time (ISO-8601 with an offset, or epoch ms), got {text!r}; {undone}"
        )
    return at_ms


def table_options(command: Command) -> Command:
    """`-o` and `--wide` as `form`, of a command that prints a table."""

    @wraps(command)
    def formed(*args: Any, output: str, wide: bool, **options: Any) -> None:
        require_tables(output, wide=wide)
        command(*args, form=Form(output, wide), **options)

    return together(output_option("json", "csv"), wide_option)(formed)


def proving_options(command: Command) -> Command:
    """How a fence is proved: `quiet`, for how long its ends stand still, and `abort_after_s`."""
    from ledger.facts.fences import QuietBounds  # commands that fence nothing would wait for it

    @wraps(command)
    def bounded(*args: Any, least_s: float, most_s: float, **options: Any) -> None:
        if most_s < least_s:
            raise UsageError("--most-quiet-seconds is less than --quiet-seconds; nothing was done")
        command(*args, quiet=QuietBounds(least_s, most_s), **options)

    return together(
        seconds_option(
            "--abort-open-transactions-after",
            "abort_after_s",
            "Abort transactions that are open so long after the fence. Default: wait for them.",
        ),
        seconds_option(
            "--quiet-seconds",
            "least_s",
            "How long at least the fenced ends have to stand still, where no leader proves the fence.",
            default=QuietBounds().least_s,
            least=LEAST_QUIET_S,
        ),
        seconds_option(
            "--most-quiet-seconds",
            "most_s",
            "How long at most, where writers pause for longer or nobody knows for how long.",
            default=QuietBounds().most_s,
            least=LEAST_QUIET_S,
        ),
    )(bounded)


# The operator's words, which the ledger keeps with what was done ------------------------------------


def why_options(command: Command) -> Command:
    """`--reason` and `--ticket` as `why`, of a command that may be asked without a word."""
    return _why(command, is_required=False)


def required_why_options(command: Command) -> Command:
    """The same of a command that has to be given a reason."""
    return _why(command, is_required=True)


class _Asked(click.Option):
    """Asked of a person who leaves it out; a script has to give it."""

    def prompt_for_value(self, ctx: click.Context) -> str:
        if not sys.stdin.isatty():
            raise click.MissingParameter(ctx=ctx, param=self)
        return asked_for("why, for the ledger")


def _why(command: Command, *, is_required: bool) -> Command:
    from ledger.facts.operations import Why  # those that record nothing would wait for it

    @wraps(command)
    def reported(*args: Any, reason: str | None, ticket: str | None, **options: Any) -> None:
        command(*args, why=Why(reason, ticket), **options)

    return together(
        click.option(
            "--reason", cls=_Asked, prompt=is_required, required=is_required, help="Why, for the ledger."
        ),
        click.option("--ticket", help="Reference to a ticket, for the ledger."),
    )(reported)


extras_option = click.option(
    "--extras",
    multiple=True,
    metavar="[TOPIC=]POLICY",
    help="What becomes of records that --to alone has. keep: they stay there and are copied nowhere, and groups pass "
    "them. salvage: the same, and before that they are copied to TOPIC.salvaged at --from. replicate: they are copied "
    "behind what was written to the topic at --from; refused of a compacted one. "
    "recreate: the topic is deleted at --to with what it alone has and made again, and all that --from has comes back; "
    "salvage-recreate: the same, once they are copied as by salvage. "
    "Of one topic, or of all others. Can be repeated.",
)

deficits_option = click.option(
    "--deficits",
    multiple=True,
    metavar="[TOPIC=]POLICY",
    help="What becomes of records that --to has lost and of which --from has copies. return: they come back, in the "
    "order in which they lie at --from, behind what --to has; refused of a compacted topic. keep: they stay at --from "
    "alone. Of one topic, or of all others. Can be repeated.",
)
