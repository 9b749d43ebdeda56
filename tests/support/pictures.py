"""Pictures of README.md, taken of the real thing: the demonstration as it is printed, and the page of a mirror at work.

    make pictures

plays the demonstration and mirrors for some minutes; the page is drawn by a Chromium, which has to be on this machine.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ledger import jvm
from ledger.answers.maintenance import init_ledger
from ledger.sandbox import Sandbox
from ledger.sandbox.groups import resume
from ledger.sandbox.reading import ends
from ledger.sandbox.writing import Traffic
from tests.support.browser import browse, browser
from tests.support.checkout import CHECKOUT
from tests.support.config_files import write_config
from tests.support.drivers import Command
from tests.support.homes import home_with_jars
from tests.support.scraped import serving
from tests.support.waiting import eventually

PICTURES = CHECKOUT / "conf" / "pictures"

# The demonstration --------------------------------------------------------------------------------

_WIDTH = 100
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_LOOKS = {
    r"\d of 6: \w+\.": "bold #5fafff",
    r"mirror-ledger .*| {4}--.*": "bold",
    r" +[\d.]+ s(?=  )": "#8a8a8a",
    r"  lost .*| {12}.*": "#ffd75f",
    r"(?:copied|lost|groups|repeated) .*": "#5fd75f",
}
"""How what a line begins with looks: what is the same on both sides is green, what a failover costs is yellow."""
_LEFT_OUT = re.compile(r"WARNING|kept: |plan \w+:|  (?!lost)\w+ |.* s  (?:start clusters|wait for|plan the) ")


def told(printed: str) -> Iterator[str]:
    """The lines of the demonstration without those that only wait or name; of plans what would be lost."""
    is_shown = True
    for line in printed.strip().splitlines():
        if not line.startswith(12 * " "):  # the others continue the line before
            is_shown = _LEFT_OUT.match(line) is None
        if is_shown:
            yield line


def drawn(lines: list[str], title: str) -> str:
    """What a terminal shows, as SVG in the fonts of who reads it; raises `ValueError` where a line is too long."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    for line in lines:
        if len(line) > _WIDTH:
            raise ValueError(f"longer than {_WIDTH} characters: {line}")
        text = Text(line)
        for begin, look in _LOOKS.items():
            if (found := re.match(begin, line)) is not None:
                text.stylize(look, 0, found.end())
        console.print(text, no_wrap=True)
    picture = console.export_svg(title=title, unique_id="demo")
    return _FONTS.sub("", picture).replace("Fira Code", "DejaVu Sans Mono")


def play(folder: Path) -> str:
    """What the demonstration prints on a terminal."""
    played = subprocess.run(
        [sys.executable, "-m", "ledger.cli.main", "demo", "--records", "5000"],
        env={
            **os.environ,
            "MIRROR_LEDGER_HOME": str(home_with_jars(folder, jvm.home())),
            "COLUMNS": str(_WIDTH),
        },
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if played.returncode != 0:
        raise RuntimeError(f"the demonstration ended with {played.returncode}: {played.stdout[-2000:]}")
    return played.stdout


# The page -----------------------------------------------------------------------------------------

_TRAFFIC_S = 180
_SIZE = "1100,880"
_FLOW = 'topics = [".*"]\ntopic_naming = "identity"\nround_seconds = 1.0'


def show(folder: Path, picture: Path) -> None:
    """The page of a mirror that has followed steady traffic, and a group that reads it, for some minutes."""
    sandbox, log = Sandbox(folder / "page"), folder / "page.log"
    try:
        servers = {
            name: one.bootstrap_servers for name, one in sandbox.up(["east", "west"], brokers=1).items()
        }
        config = write_config(folder, servers, {"east-to-west": _FLOW})
        init_ledger(config)
        Traffic(servers["east"])  # its topics are there when the mirror starts
        with ExitStack() as ended:
            ended.callback(Command(config, log, "run", "east-to-west").end)
            eventually(
                lambda: "west are recorded by this process" in log.read_text(), "the mirror is at work"
            )
            write = ["sandbox", "write", f"--root={sandbox.root}", "--rate=500", f"--for={2 * _TRAFFIC_S}s"]
            ended.callback(Command(config, log, *write).end)
            url = ended.enter_context(serving(config, folder / "serve.log"))
            until_s = time.monotonic() + _TRAFFIC_S
            while time.monotonic() < until_s:
                resume(servers["east"], "billing", list(ends(servers["east"], ["events-none"])))
                time.sleep(1)
            browse(
                f"--screenshot={picture}",
                f"--window-size={_SIZE}",
                "--virtual-time-budget=5000",
                f"{url}/?still",
            )
    finally:
        sandbox.down()


def take(folder: Path) -> None:
    """Both pictures, into `PICTURES`."""
    browser()  # before minutes have passed
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "demo.svg").write_text(drawn([*told(play(folder))], "mirror-ledger demo"), encoding="utf-8")
    show(folder, PICTURES / "page.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        take(Path(made))
