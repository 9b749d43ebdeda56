"""Log lines of a command or a job: ours on stderr, libraries only where nobody else says it."""

import logging
import sys

_LEVELS = {
    # Connection failures of kafka-python come back as errors of ours, with the cluster's name.
    "kafka": logging.CRITICAL,
    # A JVM that ends comes back as an error of ours; py4j would print a traceback for each of its calls.
    "py4j": logging.CRITICAL,
    "pyspark": logging.ERROR,
}


def log_to_stderr() -> None:
    """Set up logging for a process; called by entry points only."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)
