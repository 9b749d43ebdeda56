"""`record`, and what the two recorder jobs share with it: the stop signal, and what is printed at the end."""

import argparse
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from json import dumps

import click

from ledger.cli.configured import configuration_to_connect_by
from ledger.cli.logs import log_to_stderr
from ledger.cli.printing import put, say, say_error
from ledger.config.file import find_config, load_config
from ledger.errors import MirrorLedgerError
from ledger.recorders.observation import Subject
from ledger.recorders.run import record_clusters


@click.command()
@click.argument("clusters", nargs=-1, metavar="[CLUSTER]...")
@click.option("--once", is_flag=True, help="Read everything once and end.")
@click.pass_context
def record(context: click.Context, clusters: tuple[str, ...], once: bool) -> None:
    """Record groups, ends and topics of CLUSTERs (all that flows use) while no driver does, until SIGTERM or SIGINT."""
    config = configuration_to_connect_by(context)
    with _stop_on_signals() as stop:
        recorded = record_clusters(config, clusters, stop=stop, once=once)
    for cluster, rows in recorded.items():
        counts = ", ".join(f"{count:,} rows of {table}" for table, count in sorted(rows.items()))
        say(f"{cluster}: {counts or 'nothing was appended'}")


def record_job(arguments: Sequence[str] | None, *, description: str, subjects: frozenset[Subject]) -> int:
    """Record `subjects` of one cluster; returns the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config")
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--once", action="store_true", help="record once and end")
    options = parser.parse_args(arguments)
    log_to_stderr()
    try:
        config = load_config(find_config(options.config, os.environ))
        with _stop_on_signals() as stop:
            recorded = record_clusters(config, [options.cluster], subjects, stop=stop, once=options.once)
    except MirrorLedgerError as error:
        say_error(error)
        return error.exit_code
    put(dumps({"cluster": options.cluster, "rows": recorded[options.cluster]}) + "\n")
    return 0


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Set by SIGTERM and SIGINT: what is being read is still recorded, and the roles are given back."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
