"""Commands that write: `init`, `run`; and what spark-submit needs: `spark-jars`."""

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import click
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.cli.configured import configuration_to_connect_by
from ledger.cli.printing import put, say
from ledger.cli.processes.exporting import exporting
from ledger.cli.processes.progress import Tell, lines_on_stderr, shown_progress
from ledger.cli.processes.signals import reload_on_sighup, start_spark
from ledger.config.mirror import MirrorConfig
from ledger.errors import UsageError
from ledger.jvm import delta_jars
from ledger.mirror.progress import RunSummary
from ledger.mirror.run import run_flow
from ledger.mirror.spark import SessionFactory, local_session
from ledger.mirror.standby import stand_by
from ledger.mirror.text import end_line
from ledger.mirror.together import FlowEnd, is_held_here, require_all_ended_well, run_together
from ledger.store.append_durations import AppendDurations
from ledger.store.state import followed_state
from ledger.terminal import StatusLine


@click.command()
@click.pass_context
def init(context: click.Context) -> None:
    """Create the ledger's tables; existing ones stay as they are."""
    config = configuration_to_connect_by(context)
    created = init_ledger(config)
    say(f"{config.ledger.path}: created {', '.join(created) or 'nothing, all tables exist'}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the run of a flow."""

    until_caught_up: bool
    take_over: bool
    standby: bool
    allow_scope_reduction: bool
    from_cut: str | None


@click.command()
@click.argument("flows", nargs=-1, metavar="[FLOW]...")
@click.option("--all", "runs_all", is_flag=True, help="Mirror every flow that is enabled.")
@click.option("--until-caught-up", is_flag=True, help="End at the source's ends as of now.")
@click.option("--take-over", is_flag=True, help="Shut out a driver of the flow that may be at work.")
@click.option("--standby", is_flag=True, help="Wait for the flow's driver to die, then take over.")
@click.option(
    "--allow-scope-reduction", is_flag=True, help="Leave out mirrored topics that are no longer selected."
)
@click.option("--from-cut", help="Begin where this operation's cut of the opposite flow says.")
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Where Prometheus reads what this driver does; else [metrics] listen, else nowhere.",
)
@click.pass_context
def run(
    context: click.Context, /, flows: tuple[str, ...], runs_all: bool, metrics: str | None, **asked: Any
) -> None:
    """Mirror each FLOW in a local Spark session until it is stopped or caught up; several share one process."""
    wanted = Asked(**asked)
    _require_sense(wanted, flows, runs_all=runs_all)
    config = configuration_to_connect_by(context)
    found = [flow.name for flow in config.enabled_flows] if runs_all else list(dict.fromkeys(flows))
    if not found:
        raise UsageError(f"{config.file} has no flow that is enabled; nothing was started")
    if len(found) == 1:
        _run_one(config, found[0], wanted, metrics)
    else:
        _run_several(config, found, wanted, metrics)


def _require_sense(asked: Asked, flows: Sequence[str], *, runs_all: bool) -> None:
    if asked.standby and (asked.until_caught_up or asked.take_over or asked.from_cut is not None):
        raise UsageError(
            "--standby waits for a driver to die and then runs on: it goes with neither --until-caught-up "
            "nor --take-over nor --from-cut; nothing was started"
        )
    if bool(flows) == runs_all:
        raise UsageError("name each FLOW to run, or give --all; nothing was started")
    if asked.from_cut is not None and (runs_all or len(flows) > 1):
        raise UsageError("--from-cut is about one flow; nothing was started")


def _run_one(config: MirrorConfig, flow: str, asked: Asked, metrics: str | None) -> None:
    tasks = config.flow(flow).tasks
    stop, reload = threading.Event(), reload_on_sighup([flow])

    def session() -> SparkSession:
        return start_spark(lambda: local_session(tasks=tasks), stop)

    # Progress of a standby is printed in lines: most of the time there is none.
    shown = nullcontext(lines_on_stderr(flow)) if asked.standby else shown_progress(flow, StatusLine())
    with shown as show, exporting(config, {flow: show}, listen=metrics) as exports:
        summary = _run(config, flow, asked, session, stop, reload[flow], *exports[flow])
    _say_end(FlowEnd(flow, summary))
    if summary is not None:
        refuse_unfinished(flow, summary)


def _run_several(config: MirrorConfig, flows: Sequence[str], asked: Asked, metrics: str | None) -> None:
    tasks = sum(config.enabled_flow(flow).tasks for flow in flows)
    stop, reload = threading.Event(), reload_on_sighup(flows)
    with exporting(config, {flow: lines_on_stderr(flow) for flow in flows}, listen=metrics) as exports:
        spark = start_spark(lambda: local_session(tasks=tasks), stop)  # signals are the main thread's

        def run_once(flow: str, is_again: bool) -> RunSummary | None:
            this = asked
            if is_again and is_held_here(flow, followed_state(config.ledger.path)):
                this = replace(asked, take_over=True, standby=False)
            return _run(config, flow, this, lambda: spark, stop, reload[flow], *exports[flow])

        ends = run_together(
            flows, run_once, stop=stop, are_tried_again=not asked.until_caught_up, on_end=_say_end_of_one
        )
    require_all_ended_well(ends)


def _run(
    config: MirrorConfig,
    flow: str,
    asked: Asked,
    session: SessionFactory,
    stop: threading.Event,
    reload: threading.Event,
    tell: Tell,
    appends: AppendDurations,
) -> RunSummary | None:
    """Until it ends; None: asked to end while it waited as standby."""
    if asked.standby:
        return stand_by(
            config,
            flow,
            session=session,
            allow_scope_reduction=asked.allow_scope_reduction,
            stop=stop,
            reload=reload,
            on_round=tell,
            appends=appends,
        )
    return run_flow(
        config,
        flow,
        session=session,
        until_caught_up=asked.until_caught_up,
        take_over=asked.take_over,
        allow_scope_reduction=asked.allow_scope_reduction,
        from_cut=asked.from_cut,
        stop=stop,
        reload=reload,
        on_round=tell,
        appends=appends,
    )


def _say_end(end: FlowEnd) -> None:
    if end.summary is None:
        say(f"{end.flow}: ended by a signal while it waited as standby; nothing was copied", flow=end.flow)
    else:
        say(end_line(end.flow, end.summary), flow=end.flow)


def _say_end_of_one(end: FlowEnd) -> None:
    """While others may run on: at once, and why."""
    if end.error is None:
        _say_end(end)
    if (refusal := end.refusal) is not None:
        first, *others = refusal.lines
        named = first if first.startswith(end.flow) else f"{end.flow}: {first}"
        say(f"error: {named}", *others, flow=end.flow)


def refuse_unfinished(flow: str, summary: RunSummary) -> None:
    """A run in which a partition stopped, or that left out what is paused, is not a success."""
    if (refusal := FlowEnd(flow, summary).refusal) is not None:
        raise refusal


@click.command(name="spark-jars")
def spark_jars() -> None:
    """Print the jars that spark-submit needs (--jars), fetching them once."""
    put(",".join(str(jar) for jar in delta_jars()) + "\n")
