"""`rehearse`: what a failover would lose and repeat, now or at instants of the past. It records nothing."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from ledger.changeover.losses import downtime_words, loss_words
from ledger.changeover.rehearsing import (
    COLUMNS,
    AskedRehearsal,
    RehearsalStatus,
    RehearsedNow,
    Runner,
    in_this_process,
    instants,
    rehearse_now,
    rehearse_past,
    stuck_groups,
    stuck_words,
)
from ledger.changeover.text import causes_of, repeated_words
from ledger.cli.accepting import OF_PLANS, SOURCE_ANSWERS, STATUSES_OF_PLANS, accept_option
from ledger.cli.changeover.choosing import chosen, fence_option, scope_options
from ledger.cli.configured import command_context
from ledger.cli.options import show_cut_option, table_options, time_of
from ledger.cli.printing import Form, put, say, say_cut
from ledger.clock import SystemClock
from ledger.context import Context
from ledger.errors import PreconditionError, UnsafeError, UsageError
from ledger.facts.ways import Direction
from ledger.plain_text import json_text
from ledger.words import counted, duration, instant, shown

_STEP = re.compile(r"([0-9]{1,9})(s|min|h|d)")
_UNIT_MS = {"s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@click.group()
def rehearse() -> None:
    """Try a change of direction before it comes; nothing is changed or recorded."""


def failover_command(run: Runner) -> click.Command:
    """The command; `run`: where instants of the past are computed."""

    @click.command(name="failover")
    @click.option("--from", "source", required=True, help="The cluster that is lost, or would be.")
    @click.option("--to", "target", required=True, help="The cluster that applications would go to.")
    @click.option("--now", "is_now", is_flag=True, help="As of now: fail over, or wait?")
    @click.option("--every", metavar="STEP", help="At instants so far apart: 30s, 15min, 1h, 1d.")
    @click.option("--since", metavar="TIME", help="With --every: the first instant, as --as-of takes times.")
    @click.option("--until", metavar="TIME", help="With --every: the last instant. Default: now.")
    @scope_options
    @fence_option
    @accept_option(
        (*OF_PLANS, SOURCE_ANSWERS), STATUSES_OF_PLANS, help="As plan failover takes it. Can be repeated."
    )
    @show_cut_option
    @table_options
    @click.pass_context
    def failover(
        context: click.Context,
        /,
        source: str,
        target: str,
        is_now: bool,
        every: str | None,
        since: str | None,
        until: str | None,
        form: Form,
        **options: Any,
    ) -> None:
        """Fail over now, or wait? Or, with --every: what a failover would have cost at each instant of the past."""
        asked = AskedRehearsal(Direction(source, target), chosen(**options))
        if is_now == (every is not None):
            raise UsageError(
                "a rehearsal is --now, or of the past: --every STEP --since TIME; nothing was read"
            )
        if is_now:
            if since is not None or until is not None:
                raise UsageError("--since and --until go with --every; nothing was read")
            _now(command_context(context), asked, form)
        else:
            _past(context, asked, _instants(str(every), since, until), form, run)

    return failover


rehearse.add_command(failover_command(in_this_process))


# Now ----------------------------------------------------------------------------------------------


def _now(command: Context, asked: AskedRehearsal, form: Form) -> None:
    found = rehearse_now(command, asked)
    made = found.made
    if form.output == "json":
        blockers = [
            {"code": one.code, "words": one.words, "advice": one.advice, "cause": one.cause}
            for one in made.recorded_blockers
        ]
        put(json_text([{**found.content, "blockers": blockers}]))
    elif form.output == "csv":
        form.put_rows([found.figures], COLUMNS)
    else:
        put("".join(f"{line}\n" for line in _screen(found, wide=form.wide)))
    say_cut(lambda: made.seen.cut, form.output)
    if made.blockers:
        raise UnsafeError(
            f"a failover now is blocked: {', '.join(made.plan.blockers)}; nothing was changed or recorded"
        )


_SHOWN_BLOCKERS = 12


def _screen(found: RehearsedNow, *, wide: bool) -> Iterator[str]:
    made, forecast = found.made, found.made.forecast
    plan = made.plan
    yield f"failover from {plan.from_cluster} to {plan.to_cluster} as of {instant(found.at_ms)}"
    stuck = stuck_groups(made)
    groups, number = found.figures["groups"], found.figures["groups_stuck"]
    stuck_text = f"; {counted(number, 'group')} cannot move: {stuck_words(stuck)}" if stuck else ""
    lines = {
        "silent": _silence(found),
        "lost": loss_words(forecast),
        "repeated": repeated_words(forecast) + _most(found.figures),
        "groups": f"{groups - number} of {counted(groups, 'group')} can move{stuck_text}",
        "commits": _commits(found.figures),
        "apply": downtime_words(forecast["downtime"]),
        "drill": _drill(found),
    }
    for label, text in lines.items():
        yield f"  {label:9} {shown(text)}"
    causes = causes_of(made.recorded_blockers)
    some = causes if wide else causes[:_SHOWN_BLOCKERS]
    for words in some:
        yield f"  blocked   {shown(words)}"
    if left := len(causes) - len(some):
        yield f"            and {counted(left, 'more cause')}: --wide, or -o json"
    if not causes:
        yield "  blocked   nothing stands against it"


def _silence(found: RehearsedNow) -> str:
    seen = found.made.seen.source
    if found.source_answers:
        return f"{seen.alias} answers now: it is not lost"
    tried = f"a try now: {seen.trouble}"
    if found.failing_since_ms is not None:
        tried = f"recorded as unreachable since {instant(found.failing_since_ms)}; {tried}"
    if found.silent_seconds is None:
        return f"{seen.alias} does not answer, and its ends were never recorded; {tried}"
    return f"{seen.alias} was read last {duration(found.silent_seconds)} ago, and does not answer; {tried}"


def _most(figures: Mapping[str, Any]) -> str:
    group, number = figures["most_repeated_by"], figures["most_repeated"]
    if group is None or number == 0:
        return ""
    most = "an unknown number" if number is None else f"{number:,}"
    return f"; most by {group!r}: {most}"


def _drill(found: RehearsedNow) -> str:
    if found.drilled is None:
        return "never drilled"
    last = found.drilled
    return f"{last.verdict}, {duration((found.at_ms - last.at_ms) / 1000)} ago ({instant(last.at_ms)})"


def _commits(figures: Mapping[str, Any]) -> str:
    age = figures["commits_age_seconds"]
    return "were never recorded" if age is None else f"were recorded last {duration(age)} ago"


# The past -----------------------------------------------------------------------------------------


def _instants(every: str, since: str | None, until: str | None) -> Callable[[int], list[int]]:
    """Those that are asked for, when it is now."""
    found = _STEP.fullmatch(every)
    if found is None or not int(found[1]):
        raise UsageError(
            f"--every takes a number and s, min, h or d, such as 1h, got {every!r}; nothing was read"
        )
    if since is None:
        raise UsageError("--every needs --since TIME; nothing was read")
    since_ms = time_of("--since", since, undone="nothing was read")
    until_ms = None if until is None else time_of("--until", until, undone="nothing was read")
    step_ms = int(found[1]) * _UNIT_MS[found[2]]
    return lambda now_ms: instants(since_ms, now_ms if until_ms is None else until_ms, step_ms)


def _past(
    context: click.Context, asked: AskedRehearsal, of: Callable[[int], list[int]], form: Form, run: Runner
) -> None:
    now_ms = SystemClock().now_ms()
    rows = rehearse_past(command_context(context).config, asked, of(now_ms), now_ms=now_ms, run=run)
    form.put_rows(rows, COLUMNS)
    before = sum(row["status"] == RehearsalStatus.BEFORE_LEDGER for row in rows)
    without = sum(row["status"] == RehearsalStatus.NO_PLAN for row in rows)
    if before:
        say(f"{counted(before, 'instant')} before the ledger began: nothing is known of them")
    if without:
        say(f"{counted(without, 'instant')} without a plan: words says why")
    if before + without == len(rows):
        raise PreconditionError(f"at no instant there is a plan; the last one: {rows[-1]['words']}")
    say(
        f"{asked.way.source} was taken for lost at each instant; what {asked.way.target} had then is as it was "
        "recorded (target_age_seconds), and the configuration is that of today"
    )
