"""The README is true: its commands are run as they stand there."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.sandbox import Sandbox
from tests.support.checkout import CHECKOUT
from tests.support.homes import home_with_jars
from tests.support.readers import Reader

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
FIRST_ANSWER = next(number for number, block in enumerate(COMMANDS) if "mirror-ledger status" in block)
"""Up to here a mirror is made; from here on its ledger is read."""


@pytest.fixture(scope="module")
def reader(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Where the blocks that make a mirror were typed already."""
    folder = tmp_path_factory.mktemp("readme")
    own = home_with_jars(folder, home)
    environment = {**os.environ, "MIRROR_LEDGER_HOME": str(own)}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment.pop("MIRROR_LEDGER_CONFIG", None)
    made = Reader(folder, environment)
    try:
        made.type(COMMANDS[:FIRST_ANSWER])
        yield made
    finally:
        Sandbox(own / "sandbox").down()


def test_the_commands_run_as_they_stand(reader: Reader) -> None:
    printed = reader.type(COMMANDS[FIRST_ANSWER:])
    assert len((reader.folder / "reset.csv").read_text(encoding="utf-8").splitlines()) > 10
    assert '"target_offset": 100' in printed
    assert not (reader.folder / "home" / "sandbox").exists()


def test_there_are_commands_to_run() -> None:
    assert sum(block.count("mirror-ledger") for block in COMMANDS) >= 10
