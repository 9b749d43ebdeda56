"""SIGTERM and SIGINT for commands that run Spark: after the round under way, or once Spark has started; SIGHUP.

The start of Spark is not interrupted: that leaves a JVM behind which waits for a program that has ended.
"""

import signal
import sys
import threading
from collections.abc import Callable, Collection, Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ledger.cli.logs import events_of_children
from ledger.cli.printing import say
from ledger.errors import EndedBySigintError, EndedBySigtermError, MirrorLedgerError, SetupError
from ledger.mirror.spark import reason

_ERRORS: dict[int, type[MirrorLedgerError]] = {
    signal.SIGTERM: EndedBySigtermError,
    signal.SIGINT: EndedBySigintError,
}


def start_spark(start: Callable[[], SparkSession], stop: threading.Event) -> SparkSession:
    """The started session, with signals that set `stop` from then on.

    A signal that came while Spark started ends the command: raises `EndedBySigtermError` or
    `EndedBySigintError`. A second one ends the process at once.
    """
    received: list[int] = []

    def note(number: int, _frame: object) -> None:
        received.append(number)
        for noted in _ERRORS:
            signal.signal(noted, signal.SIG_DFL)

    for number in _ERRORS:
        signal.signal(number, note)
    session = _started(start, received)
    stop_on_signals(stop)
    if received:
        session.stop()
        raise _ended_by(received[0])
    return session


def _started(start: Callable[[], SparkSession], received: list[int]) -> SparkSession:
    """Once its context is there, Spark has a handler of its own for SIGINT, which raises `KeyboardInterrupt`."""
    try:
        with events_of_children():
            return start()
    except KeyboardInterrupt:
        raise _ended_by(signal.SIGINT) from None
    except (Py4JError, PySparkException, OSError, MirrorLedgerError) as error:
        if received:  # the JVM was asked to end as well
            raise _ended_by(received[0]) from error
        if isinstance(error, MirrorLedgerError):
            raise
        raise SetupError(f"Spark could not be started: {reason(error)}; nothing was copied") from error


def _ended_by(number: int) -> MirrorLedgerError:
    name = signal.Signals(number).name
    return _ERRORS[number](f"ended by {name} while Spark was starting; nothing was copied")


def reload_on_sighup(flows: Collection[str]) -> Mapping[str, threading.Event]:
    """Set by SIGHUP, for each flow its own: the configuration file is to be read again.

    At a terminal SIGHUP ends a process, as ever.
    """
    reload = {flow: threading.Event() for flow in flows}

    def ask(*_: object) -> None:
        for asked in reload.values():
            asked.set()

    if not sys.stderr.isatty():
        signal.signal(signal.SIGHUP, ask)
    return reload


def stop_on_signals(stop: threading.Event) -> None:
    """End after the round under way. To be set once Spark has started, which installs a handler of its own."""

    def ask(number: int, _frame: object) -> None:
        say(f"{signal.Signals(number).name}: ending after the round under way")
        stop.set()

    for number in _ERRORS:
        signal.signal(number, ask)
