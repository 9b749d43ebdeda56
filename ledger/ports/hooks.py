"""Commands of an operator that are run at a step: hooks."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ledger.errors import UsageError


@dataclass(frozen=True, slots=True)
class HookCommand:
    """A program and its arguments, run without a shell, for at most so many seconds."""

    command: tuple[str, ...]
    seconds: float
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set besides those of the process."""


@dataclass(frozen=True, slots=True)
class HookResult:
    """How it ended: its exit code, None when it was ended for taking too long; and what it printed, shortened."""

    exit_code: int | None
    output: str

    @property
    def is_done(self) -> bool:
        return self.exit_code == 0


class Hooks(Protocol):
    """Runs commands."""

    def run(self, hook: HookCommand, waits: Callable[[str], None]) -> HookResult:
        """Until it ends, or its time is over: then it is ended with what it started.

        `waits` is called every few seconds with how long it has run; what that raises ends the command too. Raises
        `UsageError` when there is no such program.
        """
        ...


def words_of(command: str) -> tuple[str, ...]:
    """The program and its arguments, as a shell takes a line apart; raises `UsageError` for what is no command."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"the hook {command!r} is no command: {error}; nothing was run") from error
    if not words:
        raise UsageError("a hook is empty; nothing was run")
    return words
