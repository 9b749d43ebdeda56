"""Somebody who types what a document says."""

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.commands import Done

_WITHIN_S = 240


@dataclass(frozen=True)
class Reader:
    """Types commands into one shell, one block after the other: what they export is there for the next ones."""

    folder: Path
    environment: Mapping[str, str]

    def type(self, blocks: Sequence[str]) -> str:
        """What the commands print on stdout; each of them has to end well."""
        done = self.typed("".join(blocks))
        assert done.code == 0, done.err
        return done.out

    def typed(self, block: str) -> Done:
        """How the first command that does not end well has ended, or the last one."""
        done = subprocess.run(
            self.shell(block),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def begun(self, block: str, shown: Path, answers: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """A block that runs and shows all that it prints in a file; a person types the answers to its questions.

        The person's end of the terminal stays open: a command whose terminal is closed is ended.
        """
        person, terminal = pty.openpty()
        os.write(person, "".join(f"{one}\n" for one in answers).encode())
        with shown.open("wb") as out, os.fdopen(terminal) as typed:
            return subprocess.Popen(
                self.shell(block), env=self.environment, stdin=typed, stdout=out, stderr=subprocess.STDOUT
            )

    def shell(self, block: str) -> list[str]:
        """The command line of a shell that is given a block, in the folder."""
        exported = self.folder / "exported.sh"
        before = f". {exported}\n" if exported.exists() else ""
        return [
            "bash",
            "-euo",
            "pipefail",
            "-c",
            f"cd {self.folder}\n{before}{block}\nexport -p > {exported}\n",
        ]
