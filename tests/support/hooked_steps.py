"""Hooks by which an apply hands steps to the test: the hook asks, and waits until the test says that it is done."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from threading import Event

_EVERY_S = 0.05


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

    def wait(self, ended: Event) -> bool:
        """Until the apply asks for it, or the test has ended; whether it asks.

        Without a limit of its own: how long a plan and the steps before it take is for the test to limit.
        """
        while not self.is_asked():
            if ended.wait(_EVERY_S):
                return self.is_asked()
        return True

    def done(self) -> None:
        self._done.touch()

    @property
    def _asked(self) -> Path:
        return self.folder / f"{self.step}.asked"

    @property
    def _done(self) -> Path:
        return self.folder / f"{self.step}.done"
