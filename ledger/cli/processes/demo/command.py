"""`demo`: mirror a busy cluster, lose it, fail over to the other one, and compare every record."""

import logging
import signal
import sys
import time

import click

from ledger.adapters import jvm
from ledger.app import answers
from ledger.cli.printing import say
from ledger.cli.processes.demo.comparing import Played, close, compare_logs
from ledger.cli.processes.demo.failing_over import fail_over, resume_groups, translate
from ledger.cli.processes.demo.mirroring import fall_behind, mirror, show_ledger
from ledger.cli.processes.demo.producing import prepare_source, write_more
from ledger.cli.processes.demo.showing import Progress
from ledger.config.file import load_config
from ledger.sandbox import Sandbox

_FOLDER = "demo"
_BEHIND_ONE_IN = 100
"""How many of a topic's records there are for one that the mirror has not copied when the source is killed."""


@click.command()
@click.option(
    "--records", type=click.IntRange(min=1_000), default=50_000, show_default=True, help="Records per topic."
)
@click.option("--keep", is_flag=True, help="Leave the clusters and the ledger as they are at the end.")
def demo(records: int, keep: bool) -> None:
    """Mirror between two local clusters, kill one, fail over to the other, and compare every record."""
    sandbox = Sandbox(jvm.home() / _FOLDER)
    shown = Progress()
    _leave_on_signals()
    logging.getLogger().setLevel(logging.WARNING)  # the steps tell enough
    sandbox.down()
    try:
        close(_play(sandbox, shown, records), shown)
    finally:
        if keep:
            say(f"kept: {sandbox.root}; configuration: {sandbox.configuration}")
        else:
            sandbox.down()


def _leave_on_signals() -> None:
    """End as an exception does, so that no broker is left behind. While Spark works, the flow ends first."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _play(sandbox: Sandbox, shown: Progress, records: int) -> Played:
    with shown.step("start clusters east and west") as step:
        clusters = sandbox.up(["east", "west"], brokers=1)
        step.outcome = ", ".join(cluster.bootstrap_servers for cluster in clusters.values())
    east, west = (clusters[alias].bootstrap_servers for alias in ("east", "west"))
    config = load_config(sandbox.configuration)
    source = prepare_source(east, shown, records)
    summary = mirror(config, shown, _leave_on_signals)
    fall_behind(config, east, source, shown, records // _BEHIND_ONE_IN)
    show_ledger(answers.snapshot(config, None))
    with shown.step("kill cluster east (SIGKILL)"):
        sandbox.kill("east")
    killed_s = time.monotonic()
    translate(config, shown)
    failover = fail_over(config, shown)
    downtime_s = time.monotonic() - killed_s
    with shown.step("write on west") as step:
        written = write_more(west, source, records // _BEHIND_ONE_IN)
        step.outcome = f"{sum(map(len, written.values())):,} records"
    resumptions = resume_groups(west, source, written, shown)
    with shown.step("start cluster east again"):
        sandbox.start("east")
    difference = compare_logs(east, west, source, written, shown)
    return Played(source, summary, failover, downtime_s, written, resumptions, difference)
