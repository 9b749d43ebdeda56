"""What a failover would have cost at each instant of a ledger's past, computed by Spark's workers side by side.

    spark-submit --jars "$(mirror-ledger spark-jars)" jobs/rehearse.py --config FILE \\
        --from E --to W --every STEP --since TIME [--until TIME] [--topic T ...] [--leave-out T ...]
        [--group G ...] [--fence HOW] [--accept NAME ...] [-o table|json|csv] [--file FILE]

The same as `mirror-ledger rehearse failover --every`, with the same rows: each task opens the ledger at the cuts of
some instants, so workers have to reach the ledger's path. spark-submit adds stderr to stdout: programs read FILE.

Reads    every table of the ledger, at each instant's cut
Appends  nothing
Retry    start it again: the rows of an instant that has passed are the same
Exit     0 answered; 2 usage or configuration; 5 there is a plan at no instant, another ledger
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from functools import partial

import click

from ledger.answers.spark import rows_on_spark
from ledger.cli.changeover.rehearse import failover_command
from ledger.cli.logs import log_to_stderr
from ledger.cli.printing import say, say_error
from ledger.errors import MirrorLedgerError, UsageError
from ledger.mirror.spark import SessionFactory, submitted_session


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="What a failover would have cost in the past.", add_help=False
    )
    parser.add_argument("--config")
    parser.add_argument("--file")
    known, asked = parser.parse_known_args(arguments)
    log_to_stderr()
    try:
        rehearse(asked, known.config, known.file, submitted_session)
    except click.ClickException as error:
        say(f"error: {error.format_message()}")
        return UsageError.exit_code
    except MirrorLedgerError as error:
        say_error(error)
        return error.exit_code
    return 0


def rehearse(asked: Sequence[str], config: str | None, file: str | None, session: SessionFactory) -> None:
    """The command with its options, in the session; nothing is started before they are known to fit."""
    command = failover_command(partial(rows_on_spark, session))
    with ExitStack() as opened:
        if file is not None:
            try:
                text = opened.enter_context(open(file, "w", encoding="utf-8"))
            except OSError as error:
                raise UsageError(f"{file} cannot be written: {error}; nothing was read") from error
            opened.enter_context(redirect_stdout(text))
        command.main(args=list(asked), prog_name="rehearse", obj=config, standalone_mode=False)


if __name__ == "__main__":
    sys.exit(main())
