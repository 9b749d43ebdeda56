"""Options for the operator's words, which the ledger keeps with what was done: `--reason` and `--ticket`."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from ledger.facts.operations import Why

_Command = Callable[..., None]
_ticket = click.option("--ticket", help="Reference to a ticket, for the ledger.")
_REASON = "Why, for the ledger."


def why_options(command: _Command) -> _Command:
    """Both as `why`, of a command that may be asked without a word."""
    return click.option("--reason", help=_REASON)(_ticket(_with_why(command)))


def required_why_options(command: _Command) -> _Command:
    """Both as `why`, of a command that has to be given a reason."""
    return click.option("--reason", required=True, help=_REASON)(_ticket(_with_why(command)))


def _with_why(command: _Command) -> _Command:
    @wraps(command)
    def reported(*args: Any, reason: str | None, ticket: str | None, **options: Any) -> None:
        command(*args, why=Why(reason, ticket), **options)

    return reported
