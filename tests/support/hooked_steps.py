"""Hooks by which an apply hands steps to the test: the hook asks, and waits until the test says that it is done."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import eventually


@dataclass(frozen=True)
class HookedStep:
    """One step of people, done by whatever the test does between `wait` and `done`."""

    folder: Path
    step: str

    @property
    def option(self) -> tuple[str, str]:
        """What a plan is given."""
        asked, done = shlex.quote(str(self._asked)), shlex.quote(str(self._done))
        script = f"touch {asked}; while [ ! -e {done} ]; do sleep 0.05; done"
        return "--hook", f"{self.step}=sh -c {shlex.quote(script)}"

    def is_asked(self) -> bool:
        """Whether the apply has come to it."""
        return self._asked.exists()

    def wait(self) -> None:
        """Until the apply asks for it."""
        eventually(self.is_asked, f"the apply comes to {self.step}")

    def done(self) -> None:
        self._done.touch()

    @property
    def _asked(self) -> Path:
        return self.folder / f"{self.step}.asked"

    @property
    def _done(self) -> Path:
        return self.folder / f"{self.step}.done"
