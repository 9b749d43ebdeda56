"""Lines on stderr of a command or a job, as text or as JSON: ours, and libraries' only where nobody else says it."""

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType
from typing import Any

from ledger.errors import UsageError
from ledger.threads import FLOW
from ledger.words import instant, shown, shown_lines


class LogFormat(StrEnum):
    """How lines are written on stderr."""

    TEXT = "text"
    JSON = "json"  # an object a line


class LogLevel(StrEnum):
    """From which level on events are written; what a command says to whoever typed it is written at any."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


FORMAT_VARIABLE = "MIRROR_LEDGER_LOG_FORMAT"
LEVEL_VARIABLE = "MIRROR_LEDGER_LOG_LEVEL"

_LEVELS = {
    # Connection failures of kafka-python come back as errors of ours, with the cluster's name.
    "kafka": logging.CRITICAL,
    # A JVM that ends comes back as an error of ours; py4j would print a traceback for each of its calls.
    "py4j": logging.CRITICAL,
    "pyspark": logging.ERROR,
}
_SAID = logging.getLogger("mirror-ledger")
"""What a command says to whoever typed it, where lines are JSON."""
_STILL_S = 300.0
_PREFIXES = {"error: ": logging.ERROR, "warning: ": logging.WARNING}


class _Printable(logging.Formatter):
    """A line for each message, as a terminal may have it, for names in it are of others; a traceback has its own.

    Of a process with several flows each line names the one that it is about.
    """

    def format(self, record: logging.LogRecord) -> str:
        text, flow = record.getMessage(), FLOW.get()
        if flow is not None and not text.startswith(f"{flow}: "):
            text = f"{flow}: {text}"
        printable = {**vars(record), "msg": shown(text), "args": None}
        return shown_lines(super().format(logging.makeLogRecord(printable)))


class _JsonLines(logging.Formatter):
    """An object a line: `time` (UTC, milliseconds), `level`, `logger`, `message`, and what the message is about.

    An event that names its values (`"%(flow)s: ..."`) has each as a key of its own, and the flow where a process has
    several; `traceback` is of an exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, tz=UTC)
        event: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = record.args if isinstance(record.args, Mapping) else {}
        if (flow := FLOW.get()) is not None:
            event["flow"] = flow
        event |= {name: _plain(value) for name, value in fields.items() if name not in event}
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event)


class _Still(logging.Filter):
    """Lets a warning pass once, and then each `_STILL_S` with since when, as long as it comes again within these."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[
            tuple[str | None, str], tuple[float, float, float]
        ] = {}  # first, passed last, came last
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or record.exc_info or record.name == _SAID.name:
            return True
        now, key = record.created, (FLOW.get(), record.getMessage())
        with self._lock:
            self._said = {one: at for one, at in self._said.items() if now - at[2] < _STILL_S}
            first, passed, _ = self._said.get(key, (now, 0.0, now))
            passes = now - passed >= _STILL_S
            self._said[key] = (first, now if passes else passed, now)
        if passes and first < now:
            fields = record.args if isinstance(record.args, Mapping) else {}
            record.args = {**fields, "message": key[1], "since": instant(int(first * 1000))}
            record.msg = "%(message)s; still, since %(since)s"
        return passes


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def log_to_stderr(form: str = LogFormat.TEXT, level: str = LogLevel.INFO) -> None:
    """Set up lines on stderr for a process; called by entry points only, again when the configuration has been read.

    `form` and `level` hold where the environment does not say another. Raises `UsageError` for what it says wrongly.
    """
    form = os.environ.get(FORMAT_VARIABLE) or form
    level = os.environ.get(LEVEL_VARIABLE) or level
    _require(form, LogFormat, FORMAT_VARIABLE)
    _require(level, LogLevel, LEVEL_VARIABLE)
    is_json = form == LogFormat.JSON
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_Still())
    handler.setFormatter(_JsonLines() if is_json else _Printable("%(levelname)s %(message)s"))
    is_another = is_json or level != LogLevel.INFO
    logging.basicConfig(level=level.upper(), handlers=[handler], force=is_another)
    for name, least in _LEVELS.items():
        logging.getLogger(name).setLevel(least)
    _SAID.setLevel(logging.INFO)
    if is_json:
        os.environ[FORMAT_VARIABLE] = form  # workers that this process starts write as it does
        sys.excepthook = _uncaught
        threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def _require(value: str, kinds: type[StrEnum], variable: str) -> None:
    if value not in tuple(kinds):
        raise UsageError(f"{variable} is one of {', '.join(kinds)}, got {value!r}; nothing was done")


def _uncaught(
    kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None
) -> None:
    """What Python would print, as an event."""
    found = error or kind()
    _SAID.critical("%(error)s", {"error": repr(found)}, exc_info=(kind, found, traceback))


@contextmanager
def events_of_children() -> Iterator[None]:
    """Where lines are JSON, whatever processes that begin within the body write on stderr is, for as long as they last.

    A JVM has words that no setting of its own reaches, and so has a Python worker that cannot start.
    """
    if not writes_json():
        yield
        return
    own, (read, write) = os.dup(2), os.pipe()
    os.dup2(write, 2)
    os.close(write)
    threading.Thread(target=_pass_on, args=(read, own), name="stderr_of_children", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(own, 2)


def _pass_on(read: int, own: int) -> None:
    """Each line as it is where it is an event, else as the message of one."""
    formatter = _JsonLines()
    with open(read, encoding="utf-8", errors="backslashreplace") as lines:
        for line in lines:
            text = line.rstrip("\n")
            if not text.startswith("{"):
                text = formatter.format(
                    logging.makeLogRecord({"name": "child", "levelname": "WARNING", "msg": text})
                )
            os.write(own, f"{text}\n".encode())


def writes_json() -> bool:
    """Whether lines on stderr are JSON."""
    return any(isinstance(handler.formatter, _JsonLines) for handler in logging.getLogger().handlers)


def said(*lines: str, **fields: object) -> None:
    """Lines that a command says, as events: `error: ` and `warning: ` before them are levels."""
    for line in lines:
        prefix = next((prefix for prefix in _PREFIXES if line.startswith(prefix)), "")
        text = line.removeprefix(prefix)
        # A name that no field can have: what it says may have a percent sign.
        _SAID.log(_PREFIXES.get(prefix, logging.INFO), "%(message)s", {**fields, "message": text})
