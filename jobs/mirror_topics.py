"""Mirror one flow, with the recorders of its clusters.

    spark-submit --jars "$(mirror-ledger spark-jars)" jobs/mirror_topics.py \\
        --config FILE --flow F [--until-caught-up] [--take-over] [--allow-scope-reduction] [--from-cut OPERATION]

Reads    the source's and target's topics, records, groups and ends; the ledger's latest state
Appends  offset_syncs, writers, operations; checkpoints, high_watermarks, topics where the role is free
Retry    start it again: positions come from the ledger, what was copied and not recorded is recovered
Exit     0 caught up or stopped on request; 1 failed; 2 configuration; 4 some stopped or paused; 5 shut out, or in use
"""

import argparse
import os
import signal
import sys
import threading
from dataclasses import asdict
from json import dumps

from ledger.cli.logs import log_to_stderr
from ledger.cli.printing import say, say_error
from ledger.cli.processes.exporting import exporting
from ledger.cli.processes.progress import lines_on_stderr
from ledger.config.file import find_config, load_config
from ledger.config.mirror import MirrorConfig
from ledger.errors import MirrorLedgerError, UnsafeError
from ledger.mirror.progress import RunSummary
from ledger.mirror.run import run_flow
from ledger.mirror.spark import submitted_session
from ledger.mirror.text import end_line, unfinished


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mirror one flow.")
    parser.add_argument("--config")
    parser.add_argument("--flow", required=True)
    parser.add_argument("--until-caught-up", action="store_true")
    parser.add_argument("--take-over", action="store_true", help="shut out a driver that may be at work")
    parser.add_argument("--allow-scope-reduction", action="store_true", help="leave out mirrored topics")
    parser.add_argument("--from-cut", help="begin where this operation's cut of the opposite flow says")
    return parser.parse_args(arguments)


def run(config: MirrorConfig, options: argparse.Namespace) -> RunSummary:
    """The same as `mirror-ledger run`, in the session that spark-submit prepared."""
    stop, lines = threading.Event(), lines_on_stderr(options.flow)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with exporting(config, {options.flow: lines}) as exports:
        return run_flow(
            config,
            options.flow,
            session=submitted_session,
            until_caught_up=options.until_caught_up,
            take_over=options.take_over,
            allow_scope_reduction=options.allow_scope_reduction,
            from_cut=options.from_cut,
            stop=stop,
            on_round=exports[options.flow][0],
            appends=exports[options.flow][1],
        )


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    log_to_stderr()
    try:
        summary = run(load_config(find_config(options.config, os.environ)), options)
    except MirrorLedgerError as error:
        say_error(error)
        return error.exit_code
    say(end_line(options.flow, summary))
    if (left := unfinished(options.flow, summary)) is not None:
        say_error(UnsafeError(*left.splitlines()))
    sys.stdout.write(dumps({"flow": options.flow, **asdict(summary)}) + "\n")  # last: spark-submit joins both
    return UnsafeError.exit_code if left is not None else 0


if __name__ == "__main__":
    sys.exit(main())
