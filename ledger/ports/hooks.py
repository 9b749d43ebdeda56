"""Commands of an operator that are run at a step: hooks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


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

    def run(self, hook: HookCommand) -> HookResult:
        """Until it ends or its time is over. Raises `UsageError` when there is no such program."""
        ...
