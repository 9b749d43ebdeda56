"""Log lines of a command or a job: ours on stderr, libraries only where nobody else says it."""

import logging
import sys

from ledger.words import shown, shown_lines

_LEVELS = {
    # Connection failures of kafka-python come back as errors of ours, with the cluster's name.
    "kafka": logging.CRITICAL,
    # A JVM that ends comes back as an error of ours; py4j would print a traceback for each of its calls.
    "py4j": logging.CRITICAL,
    "pyspark": logging.ERROR,
}


class _Printable(logging.Formatter):
    """A line for each message, as a terminal may have it, for names in it are of others; a traceback has its own."""

    def format(self, record: logging.LogRecord) -> str:
        printable = {**vars(record), "msg": shown(record.getMessage()), "args": None}
        return shown_lines(super().format(logging.makeLogRecord(printable)))


def log_to_stderr() -> None:
    """Set up logging for a process; called by entry points only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Printable("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)
