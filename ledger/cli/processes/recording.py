"""What the two recorder jobs share: arguments, the stop signal, the summary line."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from json import dumps

from ledger.app.recording import record_cluster
from ledger.cli.logs import log_to_stderr
from ledger.config.file import find_config, load_config
from ledger.errors import MirrorLedgerError
from ledger.recording.observation import Subject


def record_job(arguments: Sequence[str] | None, *, description: str, subjects: frozenset[Subject]) -> int:
    """Record `subjects` of one cluster; returns the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config")
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--once", action="store_true", help="record once and end")
    options = parser.parse_args(arguments)
    log_to_stderr()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        config = load_config(find_config(options.config, os.environ))
        rows = record_cluster(config, options.cluster, subjects, stop=stop, once=options.once)
    except MirrorLedgerError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    sys.stdout.write(dumps({"cluster": options.cluster, "rows": rows}) + "\n")
    return 0
