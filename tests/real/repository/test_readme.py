"""The README is true: its commands are run as they stand there, its tables are compared with the code."""

import os
import re
import subprocess
import sys
from pathlib import Path

from ledger import errors
from ledger.domain.offsets import TranslationStatus
from ledger.sandbox import Sandbox
from tests.support.checkout import CHECKOUT

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
TIME_LIMIT_S = 240


def test_the_commands_run_as_they_stand(own_home: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "MIRROR_LEDGER_HOME": str(own_home)}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment.pop("MIRROR_LEDGER_CONFIG", None)
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(COMMANDS)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    finally:
        Sandbox(own_home / "sandbox").down()
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "reset.csv").read_text(encoding="utf-8").splitlines()) > 10
    assert '"target_offset": 100' in done.stdout
    assert not (own_home / "sandbox").exists()


def test_there_are_commands_to_run() -> None:
    assert sum(block.count("mirror-ledger") for block in COMMANDS) >= 10


def rows_of(heading: str) -> list[tuple[str, str]]:
    """First and second cells of the table under a heading."""
    section = README.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `?(\w+)`? \| ([^|]+?) \|", section, re.MULTILINE)[1:]


def test_translation_statuses_are_all_told_in_their_order() -> None:
    assert [name for name, _ in rows_of("What a translation says")] == [
        str(status) for status in TranslationStatus
    ]


def test_exit_codes_are_those_of_the_errors() -> None:
    used = {
        error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and hasattr(error, "exit_code")
    }
    assert {int(code) for code, _ in rows_of("Exit codes")} == used | {0}


def test_folders_exist() -> None:
    for folder in re.findall(r"^\| `(\w+)/` \|", README, re.MULTILINE):
        assert (CHECKOUT / folder).is_dir()
