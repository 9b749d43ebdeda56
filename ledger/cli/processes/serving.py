"""`serve`: the ledger as pages and as metrics, until SIGTERM or SIGINT. No JVM, no broker."""

import logging
import os
import signal
import sys
from typing import NoReturn

import click

from ledger.answers.ledger import Ledger
from ledger.cli.configured import configuration_to_connect_by
from ledger.cli.printing import say
from ledger.config.file import unguarded
from ledger.config.values import Listen
from ledger.errors import UsageError
from ledger.serving.reader import LedgerReader
from ledger.serving.server import Server, address_of, bound, token_of
from ledger.serving.web import Subjects, application


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Where; else [serve] listen of the configuration, else 127.0.0.1:8480.",
)
@click.pass_context
def serve(context: click.Context, listen: str | None) -> None:
    """Show the ledger as pages, and as metrics at /metrics. It is read only, and alone: no broker is asked."""
    config = configuration_to_connect_by(context)
    given = config.serve
    try:
        asked = Listen.parse(given.listen if listen is None else listen)
    except ValueError as error:
        raise UsageError(f"--listen {error}; nothing was served") from None
    token = token_of(given.token)
    for why in unguarded(str(asked), has_token=token is not None):
        raise UsageError(f"--{why}; nothing was served")
    Ledger.open(config)  # what is not there, or cannot be read, is said before anybody asks
    subjects = Subjects.every(given.refresh_seconds)
    crashed: list[BaseException] = []

    def end(error: BaseException) -> None:
        crashed.append(error)
        server.should_exit = True

    reader = LedgerReader(config, subjects.by_name, crashed=end)
    with bound(asked) as listening:
        at = address_of(listening)
        server = Server(application(reader, subjects, listen=at, hosts=given.hosts, token=token))

        def ask(number: int, _frame: object) -> None:
            say(f"{signal.Signals(number).name}: ending")
            server.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, ask)
        reader.start()
        say(f"{config.ledger.path} is shown at http://{at}/ and as metrics at http://{at}/metrics")
        server.run(sockets=[listening])
        is_at_rest = reader.stop()
    if crashed:
        raise crashed[0]
    if not is_at_rest:
        _leave()


def _leave() -> NoReturn:
    """End while the ledger is read: Python would end the reading thread within a library, which aborts the process."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(0)
