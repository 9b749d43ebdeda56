"""The program as its users install it: from the wheel, in a virtual environment that has nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hatchling.build import build_wheel

from tests.support.checkout import CHECKOUT
from tests.support.commands import Done


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(CHECKOUT)
    (tmp_path / "dist").mkdir()
    return tmp_path / "dist" / build_wheel(str(tmp_path / "dist"))


class Installed:
    """A virtual environment of a Python with the wheel alone; commands are typed in a folder that has nothing else."""

    def __init__(self, folder: Path, wheel: Path, extras: str = "", *, python: str = sys.executable) -> None:
        self.folder = folder
        self._environment = {
            "PATH": f"{folder / 'venv' / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder),
            "MIRROR_LEDGER_HOME": os.environ["MIRROR_LEDGER_HOME"],  # jars are fetched once for all tests
            "LANG": "C.UTF-8",
        }
        self._run(python, "-m", "venv", "venv")
        self.words_of_pip = self._run("pip", "install", "--quiet", f"{wheel}{extras}").err

    def _run(self, *words: str) -> Done:
        done = self._done(words, {})
        assert done.code == 0, done.out + done.err
        return done

    def _done(self, words: tuple[str, ...], more: dict[str, str]) -> Done:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env={**self._environment, **more},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def typed(self, *words: str, **environment: str) -> Done:
        """How a command has ended, with more variables in its environment."""
        return self._done(("mirror-ledger", *words), environment)

    def command(self, *words: str, **environment: str) -> str:
        """What a command prints that has to end well."""
        done = self.typed(*words, **environment)
        assert done.code == 0, done.out + done.err
        return done.out
