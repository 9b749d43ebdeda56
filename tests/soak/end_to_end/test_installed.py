"""What somebody has who installs the program: the wheel in an empty environment, and nothing of the checkout."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hatchling.build import build_wheel

from ledger.sandbox.workload import create_topics
from tests.support.checkout import CHECKOUT
from tests.support.following import name_of, produce, values
from tests.support.site import RealSite

_WITHIN_S = 300
"""From nothing installed to the first mirrored record of their own clusters."""


class Installed:
    """A virtual environment with the wheel alone; commands are typed in a folder that has nothing else."""

    def __init__(self, folder: Path, wheel: Path, extras: str = "") -> None:
        self.folder = folder
        self._environment = {
            "PATH": f"{folder / 'venv' / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder),
            "MIRROR_LEDGER_HOME": os.environ["MIRROR_LEDGER_HOME"],  # jars are fetched once for all tests
            "LANG": "C.UTF-8",
        }
        self._run(sys.executable, "-m", "venv", "venv")
        self._run("pip", "install", "--quiet", f"{wheel}{extras}")

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def command(self, *words: str) -> str:
        return self._run("mirror-ledger", *words).stdout


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(CHECKOUT)
    (tmp_path / "dist").mkdir()
    return tmp_path / "dist" / build_wheel(str(tmp_path / "dist"))


def test_the_first_record_of_their_own_clusters_is_mirrored_within_five_minutes(
    site: RealSite, wheel: Path
) -> None:
    east, west = site.servers
    topic = name_of("orders")
    create_topics(east, [topic], partitions=1)
    produce(east, topic, "first")
    began = time.monotonic()
    user = Installed(site.folder, wheel)
    (site.folder / "mirror.toml").write_text(
        f"""[ledger]
path = "ledger"

[clusters.east]
bootstrap_servers = "{east}"

[clusters.west]
bootstrap_servers = "{west}"

[flows.east-to-west]
source = "east"
target = "west"
topics = ["{topic}"]
"""
    )
    user.command("--config", "mirror.toml", "init")
    user.command("--config", "mirror.toml", "run", "east-to-west", "--until-caught-up")
    took_s = time.monotonic() - began
    assert values(west, f"east.{topic}") == [b"first"]
    assert user.command("--config", "mirror.toml", "status", "--check")
    print(f"from nothing installed to the first record: {took_s:.0f} s")
    assert took_s < _WITHIN_S


def test_the_demo_runs_from_the_wheel_and_its_extra(tmp_path: Path, wheel: Path) -> None:
    folder = tmp_path / "user"
    folder.mkdir()
    told = Installed(folder, wheel, "[sandbox]").command("demo")
    assert told
