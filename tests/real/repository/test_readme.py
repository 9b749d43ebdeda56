"""The README is true: its commands are typed as they stand there, and print what it shows."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.sandbox import Sandbox
from tests.support.checkout import CHECKOUT
from tests.support.homes import home_with_jars
from tests.support.readers import Reader

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(
    r"^```sh\n(.*?)^```$(?:\n^```\n(.*?)^```$)?", README, re.MULTILINE | re.DOTALL
)
"""What is typed, and what is shown of what that prints."""
END = "mirror-ledger stop west-to-east\nmirror-ledger sandbox down\n"
"""The last two commands stand in a sentence."""
ANSWER = re.compile(r"(?<=firm: |y/N\]: )\w+$", re.MULTILINE)
"""What a person types where a question is shown."""
BESIDE = re.compile(r"no driver is at work: (mirror-ledger run \S+)$", re.MULTILINE)
"""What is typed in a second terminal once it is printed."""
WITHIN_S = 420
BLOCKED = STOPPED = 4


@pytest.fixture
def reader(home: Path, tmp_path: Path) -> Iterator[Reader]:
    own = home_with_jars(tmp_path, home)
    environment = {**os.environ, "MIRROR_LEDGER_HOME": str(own), "COLUMNS": "160"}  # a plan cuts lines to fit
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment.pop("MIRROR_LEDGER_CONFIG", None)
    yield Reader(tmp_path, environment)
    Sandbox(own / "sandbox").down()


def test_commands_print_what_the_page_shows(reader: Reader) -> None:
    drivers: list[subprocess.Popen[bytes]] = []
    try:
        printed = [typed(reader, block, shown, drivers) for block, shown in BLOCKS]
        typed(reader, END, "", drivers)
        assert [driver.wait(60) for driver in drivers] == [STOPPED], "its partitions are promoted at home"
    finally:
        for driver in drivers:
            driver.kill()
            driver.wait()
    for (_, shown), out in zip(BLOCKS, printed, strict=True):
        assert [line for line in shown.splitlines() if not re.search(pattern(line), out)] == [], out
    read_on(printed)
    assert not (reader.folder / "home" / "sandbox").exists()


def typed(reader: Reader, block: str, shown: str, drivers: list[subprocess.Popen[bytes]]) -> str:
    """All that a block prints; it has to end as the page says."""
    out = reader.folder / "printed.txt"
    process = reader.begun(block, out, ANSWER.findall(shown))
    beside, until = BESIDE.findall(shown), time.monotonic() + WITHIN_S
    while process.poll() is None and time.monotonic() < until:
        if beside and beside[0] in out.read_text(encoding="utf-8"):
            drivers.append(reader.begun(beside.pop(), reader.folder / "driver.txt"))
        time.sleep(0.2)
    process.kill()
    printed = out.read_text(encoding="utf-8")
    assert process.wait() == (BLOCKED if "  blocked " in shown else 0), printed
    assert beside == [], printed
    return printed


def pattern(line: str) -> str:
    """A line of the page, which shortens at `...`, with the figures of another run and another width of a terminal."""
    parts = re.split(r"(\.\.\.|\d[\d,]*|\s+)", ANSWER.sub("", line).strip())
    return "".join(
        ".*?"
        if one == "..."
        else r"\d[\d,]*"
        if one[:1].isdigit()
        else r"\s+"
        if one.isspace()
        else re.escape(one)
        for one in parts
    )


def read_on(printed: list[str]) -> None:
    """The group reads each record once, in two clusters; answers are where it stood then and later."""
    reads = [found for out in printed if (found := _reads("\n".join(out.splitlines())))]
    assert len(reads) == 3, "at east, at west, at home"
    before, after, home = reads
    assert {key: start + count for key, (count, start) in before.items()} == _starts(after)
    assert {key: start + count for key, (count, start) in after.items()} == _starts(home)
    assert sum(count for count, _ in home.values()) > 0, "what was written at west has come home"
    rows = re.compile(r"^ +(\d) +(\d+) +\d +(\d+)$", re.MULTILINE)
    [answers] = [rows.findall(out) for out in printed if rows.search(out)]
    of = [key for key in sorted(before) if key[0] == "events-gzip"]
    expected = [*(_starts(after)[key] for key in of), *(_starts(before)[key] for key in of)]
    assert [(int(committed), int(target)) for _, committed, target in answers] == [
        (one, one) for one in expected
    ]


def _reads(out: str) -> dict[tuple[str, str], tuple[int, int]]:
    found = re.findall(r"^(\S+) partition (\d+): ([\d,]+) records? from offset ([\d,]+) on$", out, re.M)
    return {
        (topic, partition): (int(count.replace(",", "")), int(start.replace(",", "")))
        for topic, partition, count, start in found
    }


def _starts(reads: dict[tuple[str, str], tuple[int, int]]) -> dict[tuple[str, str], int]:
    return {key: start for key, (_, start) in reads.items()}


def test_there_are_commands_to_run() -> None:
    assert sum(block.count("mirror-ledger") for block, _ in BLOCKS) >= 10
    assert sum(shown != "" for _, shown in BLOCKS) >= 4
