"""The demonstration itself, with fewer records: its check holds, five lines say so, and nothing is left behind."""

import os
import re
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
    chapters = re.findall(r"^\d of 6: (\w+)\.", done.stderr, re.MULTILINE)
    assert chapters == ["mirror", "kill", "plan", "apply", "home", "compare"]
    copied, lost, groups, repeated, downtime = done.stdout.splitlines()[-5:]
    assert (found := re.fullmatch(r"copied +([\d,]+) of \1 records to west; back to east 100 of 100", copied))
    assert int(found[1].replace(",", "")) > 10_000
    assert re.fullmatch(r"lost +100 records as the failover reported, 100 found on east", lost)
    assert re.fullmatch(r"groups +6 .*: ([\d,]+) of \1 unread records, 0 skipped", groups)
    assert re.fullmatch(r"repeated +0 records", repeated)
    assert re.fullmatch(r"downtime +\d+ s without a cluster .*, \d+ s on the way home", downtime)
    assert not (own_home / "demo").exists()
