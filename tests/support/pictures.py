"""Pictures of README.md, taken of the real thing: the demonstration as it is printed, and the page of its ledger.

    make pictures

plays the demonstration, so it takes some minutes; the page is drawn by a Chromium, which has to be on this machine.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ledger import jvm
from ledger.config.file import load_config
from ledger.sandbox import Sandbox
from tests.support.browser import browse, browser
from tests.support.checkout import CHECKOUT
from tests.support.homes import home_with_jars
from tests.support.scraped import serving, text_at
from tests.support.waiting import eventually

PICTURES = CHECKOUT / "conf" / "pictures"
_WIDTH = 120
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_STEP = re.compile(r" *[\d.]+ (?:ms|s|min) +\S|mirror-ledger ")


def drawn(lines: list[str], title: str) -> str:
    """What a terminal shows, as SVG in the fonts of who reads it."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text(line), no_wrap=True, overflow="ellipsis", crop=True)
    picture = console.export_svg(title=title, unique_id="demo")
    return _FONTS.sub("", picture).replace("Fira Code", "DejaVu Sans Mono")


def is_ready(url: str) -> bool:
    """Whether the pages are of a ledger that was read."""
    try:
        text_at(f"{url}/health")
    except OSError:
        return False
    return True


def take(folder: Path) -> None:
    """Both pictures, into `PICTURES`."""
    browser()  # before minutes have passed
    home = home_with_jars(folder, jvm.home())
    sandbox = Sandbox(home / "demo")
    try:
        played = subprocess.run(
            [sys.executable, "-m", "ledger.cli.main", "demo", "--records", "5000", "--keep"],
            env={**os.environ, "MIRROR_LEDGER_HOME": str(home)},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if played.returncode != 0:
            raise RuntimeError(f"the demonstration ended with {played.returncode}: {played.stderr[-2000:]}")
        PICTURES.mkdir(exist_ok=True)
        steps = [line for line in played.stderr.splitlines() if _STEP.match(line)]
        there = next(number for number, line in enumerate(steps) if "compare both logs" in line) + 1
        verdict = played.stdout[played.stdout.rindex("\nmirrored ") :].split("\n")
        (PICTURES / "demo.svg").write_text(
            drawn([*steps[:there], "   ...", *verdict], "mirror-ledger demo"), encoding="utf-8"
        )
        with serving(load_config(sandbox.configuration), folder / "serve.log") as url:
            eventually(lambda: is_ready(url), "the ledger was read", within_s=120)
            page = PICTURES / "page.png"
            browse(
                f"--screenshot={page}",
                "--window-size=1100,900",
                "--virtual-time-budget=5000",
                f"{url}/?still",
            )
    finally:
        sandbox.down()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        take(Path(made))
