"""How long the SQL that `mirror-ledger views --for QUERY` prints takes in somebody's DuckDB, or in a Spark session.

    python -m tests.benchmarks.printed LEDGER [--engine duckdb] [--hours 0,1] [--from east --to west]

LEDGER is the folder of a ledger: of `mirror-ledger demo --keep`, or one that `tests.benchmarks.growth --keep` left.
Each question is typed in a process of its own, with settings as `queries/README.md` has them: as of the last row, and
as of so many hours before it. Printed are seconds on the wall from the start of the process, its CPU seconds, without
those of a JVM, and rows.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ledger.answers.ledger import PRINTED
from ledger.clock import HOUR_MS
from ledger.store import catalog
from ledger.store.snapshots import open_ledger
from tests.support.checkout import CHECKOUT

GOALS_S = {"duckdb": 5, "spark": 60}
AS_OF = {"duckdb": "set variable as_of = {at_ms}", "spark": "set ledger.as_of = {at_ms}"}
_SESSION = {"duckdb": "connection.execute({!r})\n", "spark": "spark.sql({!r})\n"}
_ASKED = {"duckdb": "print(len(connection.sql({!r}).fetchall()))", "spark": "print(spark.sql({!r}).count())"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ledger")
    parser.add_argument("--engine", choices=tuple(PRINTED), default="duckdb")
    parser.add_argument("--hours", default="0,1")
    parser.add_argument("--from", dest="here", default="east")
    parser.add_argument("--to", dest="there", default="west")
    options = parser.parse_args()
    asked = {
        "offset_translation": (options.here, options.there),
        "flow_losses": (f"{options.here}-to-{options.there}",),
        "replication_lag": (f"{options.here}-to-{options.there}",),
        "lineage": (options.there, "plain"),
    }
    for name, values in asked.items():
        for hours in map(int, options.hours.split(",")):
            seconds, cpu_s, rows = typed(options.ledger, options.engine, name, values, hours)
            late = "" if seconds <= GOALS_S[options.engine] else f": more than {GOALS_S[options.engine]} s"
            when = f"as of {hours} hours ago" if hours else "now"
            print(
                f"{name:20} {when:20} {seconds:7.1f} s, CPU {cpu_s:6.1f} s, {rows:>6} rows{late}", flush=True
            )


def typed(path: str, engine: str, name: str, values: tuple[str, ...], hours: int) -> tuple[float, float, str]:
    """Seconds, CPU seconds without those of a JVM, and rows of a question in a process of its own."""
    at = open_ledger(path).now()
    with tempfile.TemporaryDirectory() as folder:
        text = PRINTED[engine](at, [catalog.query(name)], None)
        Path(folder, "offset_translation.sql").write_text(text, encoding="utf-8")
        begun, began = os.times(), time.monotonic()
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                script(engine, name, values, at.last_recorded_at_ms() - hours * HOUR_MS, folder),
            ],
            cwd=folder,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds, ended = time.monotonic() - began, os.times()
    cpu_s = ended.children_user + ended.children_system - begun.children_user - begun.children_system
    rows = (
        done.stdout.strip().splitlines()[-1]
        if done.returncode == 0
        else f"none: {done.stderr.strip()[-300:]}"
    )
    return seconds, cpu_s, rows


def script(engine: str, name: str, values: tuple[str, ...], at_ms: int, folder: str) -> str:
    """What the README of the queries does in Python until the text is typed once, as of a time; then the question."""
    readme = (CHECKOUT / "queries" / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    begins = {"duckdb": "duckdb.connect()", "spark": "SparkSession.builder"}[engine]
    [block] = [one for one in blocks if begins in one]
    typed_once, _, _ = block.partition("print(" if engine == "duckdb" else 'spark.sql("select')
    before = {"duckdb": "text = open", "spark": "for statement"}[engine]
    set_time = _SESSION[engine].format(AS_OF[engine].format(at_ms=at_ms))
    question = f"select * from {name}({', '.join(map(repr, values))})"
    whole = typed_once.replace(before, f"{set_time}{before}").replace("/tmp/", f"{folder}/")
    asked = _ASKED[engine].format(question)
    return f"{whole}{asked}"


if __name__ == "__main__":
    main()
