"""Commands that write: `init`, `run`; and what spark-submit needs: `spark-jars`."""

import threading

import click
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.cli.configured import configuration_to_connect_by
from ledger.cli.printing import put, say
from ledger.cli.processes.exporting import exporting
from ledger.cli.processes.progress import lines_on_stderr, shown_progress
from ledger.cli.processes.signals import reload_on_sighup, start_spark
from ledger.errors import UnsafeError, UsageError
from ledger.jvm import delta_jars
from ledger.mirror.progress import RunSummary
from ledger.mirror.run import run_flow
from ledger.mirror.spark import local_session
from ledger.mirror.standby import stand_by
from ledger.mirror.text import end_line, unfinished
from ledger.terminal import StatusLine


@click.command()
@click.pass_context
def init(context: click.Context) -> None:
    """Create the ledger's tables; existing ones stay as they are."""
    config = configuration_to_connect_by(context)
    created = init_ledger(config)
    say(f"{config.ledger.path}: created {', '.join(created) or 'nothing, all tables exist'}")


@click.command()
@click.argument("flow")
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
    context: click.Context,
    flow: str,
    until_caught_up: bool,
    take_over: bool,
    standby: bool,
    allow_scope_reduction: bool,
    from_cut: str | None,
    metrics: str | None,
) -> None:
    """Mirror FLOW in a local Spark session until it is stopped or caught up."""
    if standby and (until_caught_up or take_over or from_cut is not None):
        raise UsageError(
            "--standby waits for a driver to die and then runs on: it goes with neither --until-caught-up "
            "nor --take-over nor --from-cut; nothing was started"
        )
    config = configuration_to_connect_by(context)
    tasks = config.flow(flow).tasks
    stop_signal, reload = threading.Event(), reload_on_sighup()

    def session() -> SparkSession:
        return start_spark(lambda: local_session(tasks=tasks), stop_signal)

    summary: RunSummary | None
    if standby:  # progress is printed in lines: most of the time there is none
        with exporting(config, flow, lines_on_stderr(flow), listen=metrics) as (tell, appends):
            summary = stand_by(
                config,
                flow,
                session=session,
                allow_scope_reduction=allow_scope_reduction,
                stop=stop_signal,
                reload=reload,
                on_round=tell,
                appends=appends,
            )
    else:
        with (
            shown_progress(flow, StatusLine()) as show,
            exporting(config, flow, show, listen=metrics) as (tell, appends),
        ):
            summary = run_flow(
                config,
                flow,
                session=session,
                until_caught_up=until_caught_up,
                take_over=take_over,
                allow_scope_reduction=allow_scope_reduction,
                from_cut=from_cut,
                stop=stop_signal,
                reload=reload,
                on_round=tell,
                appends=appends,
            )
    if summary is None:
        say(f"{flow}: ended by a signal while it waited as standby; nothing was copied")
        return
    say(end_line(flow, summary))
    refuse_unfinished(flow, summary)


def refuse_unfinished(flow: str, summary: RunSummary) -> None:
    """A run in which a partition stopped, or that left out what is paused, is not a success."""
    if (left := unfinished(flow, summary)) is not None:
        raise UnsafeError(*left.splitlines())


@click.command(name="spark-jars")
def spark_jars() -> None:
    """Print the jars that spark-submit needs (--jars), fetching them once."""
    put(",".join(str(jar) for jar in delta_jars()) + "\n")
