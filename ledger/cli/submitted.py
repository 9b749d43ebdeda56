"""Commands as scripts for spark-submit: with the options that they have, `--config`, and a file for what they print.

spark-submit adds stderr to stdout, so a program reads what was printed to the file.
"""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout

import click

from ledger.cli.logs import log_to_stderr
from ledger.cli.printing import say, say_error
from ledger.errors import MirrorLedgerError, UsageError


def carried_out(command: click.Command, about: str, arguments: Sequence[str] | None) -> int:
    """The exit code of the command with these arguments, those of this process where none are given.

    Nothing is started before they are known to fit.
    """
    parser = argparse.ArgumentParser(description=about, add_help=False)
    parser.add_argument("--config")
    parser.add_argument("--file")
    known, asked = parser.parse_known_args(arguments)
    log_to_stderr()
    try:
        _carry_out(command, asked, known.config, known.file)
    except click.ClickException as error:
        say(f"error: {error.format_message()}")
        return UsageError.exit_code
    except MirrorLedgerError as error:
        say_error(error)
        return error.exit_code
    return 0


def _carry_out(command: click.Command, asked: Sequence[str], config: str | None, file: str | None) -> None:
    with ExitStack() as opened:
        if file is not None:
            try:
                text = opened.enter_context(open(file, "w", encoding="utf-8"))
            except OSError as error:
                raise UsageError(f"{file} cannot be written: {error}; nothing was read") from error
            opened.enter_context(redirect_stdout(text))
        command.main(args=list(asked), prog_name=command.name, obj=config, standalone_mode=False)
