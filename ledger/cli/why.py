"""Options for the operator's words, which the ledger keeps with what was done: `--reason` and `--ticket`."""

from collections.abc import Callable

import click

_Command = Callable[..., None]
_ticket = click.option("--ticket", help="Reference to a ticket, for the ledger.")
_REASON = "Why, for the ledger."


def why_options(command: _Command) -> _Command:
    """Both, of a command that may be asked without a word."""
    return click.option("--reason", help=_REASON)(_ticket(command))


def required_why_options(command: _Command) -> _Command:
    """Both, of a command that has to be given a reason."""
    return click.option("--reason", required=True, help=_REASON)(_ticket(command))
