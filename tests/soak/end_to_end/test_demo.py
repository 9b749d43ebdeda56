"""The demonstration itself, with fewer records: its check holds and it leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import CHECKOUT

TIME_LIMIT_S = 240


def test_the_demonstration_holds_and_cleans_up(own_home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ledger.cli.main", "demo", "--records", "2000"],
        env={**os.environ, "MIRROR_LEDGER_HOME": str(own_home), "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if len(line.split()) > 1}
    assert (told["skipped"], told["repeated"]) == (["0"], ["0"])
    assert int(told["records"][0].replace(",", "")) > 1_000
    assert told["lost"] == ["100", "records", "reported,", "100", "found", "on", "east"]
    assert told["written"][0] == "100"
    assert not (own_home / "demo").exists()
