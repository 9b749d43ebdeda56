"""What a ledger of hours, days and a week costs: answers, a driver's start, an append, and room on disk.

    python -m tests.benchmarks.growth [--lengths 720x21,17280x21,120960x21,17280x100,17280x21x2] [--keep FOLDER]

A length is rounds of five seconds times partitions, with `x2` both ways; its ledger is written as files
(`long_ledgers`), or taken from the folder where an earlier run kept it, and maintained by the command. Commands are
whole processes, as people type them, with their peak of memory; a driver's start is what one asks the ledger before its
first round; an append is one round of its rows by the driver's own fact log. The plot shows wall time over length.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ledger.clock import SystemClock
from ledger.facts.state import WriterClaim
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.benchmarks.long_ledgers import FLOW, Length, rows_to_append, write_ledger
from tests.support.config_files import write_config

LENGTHS = "720x21,17280x21,120960x21,17280x100,17280x21x2"
BETWEEN_CLUSTERS = ("group_positions", "repeated_records", "consumed_not_copied", "one_sided_records")
APPENDS = 200
DEADLINE_S = 900.0
_WIDTH = 50


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process: seconds on the wall and of CPU, and the most memory that it held. `failure`: why it has none."""

    seconds: float
    cpu_s: float
    peak_mb: float
    failure: str | None = None

    def __str__(self) -> str:
        told = f"{self.seconds:.2f} s, CPU {self.cpu_s:.2f} s, {self.peak_mb:.0f} MB"
        return told if self.failure is None else f"{told}: {self.failure}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lengths", default=LENGTHS)
    parser.add_argument(
        "--keep", type=Path, help="Ledgers are written to this folder, unless they are there."
    )
    parser.add_argument("--start", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start:
        start_of_a_driver(options.start)
        return
    costs: dict[str, dict[Length, Cost]] = {}
    for text in options.lengths.split(","):
        length = Length.parsed(text)
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.keep / text if options.keep else Path(temporary)
            for name, cost in measured(folder, length):
                costs.setdefault(name, {})[length] = cost
    plot(costs)
    if any(cost.failure for by_length in costs.values() for cost in by_length.values()):
        sys.exit(1)


def measured(folder: Path, length: Length) -> Sequence[tuple[str, Cost]]:
    began = time.monotonic()
    if not (folder / "ledger").is_dir():
        write_ledger(str(folder / "ledger"), length)
    servers = {"east": "127.0.0.1:1", "west": "127.0.0.1:2"}
    flows = {FLOW: 'topics = [".*"]\ntopic_naming = "identity"'}
    configuration = Path(write_config(folder, servers, flows).file)
    maintenance = whole_process([sys.executable, "-m", "ledger.cli.main", "maintain"], configuration)
    size_mb = sum(file.stat().st_size for file in (folder / "ledger").rglob("*") if file.is_file()) / 1e6
    print(
        f"{length.name}: {size_mb:,.0f} MB on disk, {size_mb / length.days:,.1f} MB a day; written in "
        f"{time.monotonic() - began:.0f} s",
        flush=True,
    )
    print(f"  {'maintenance':28} {maintenance}", flush=True)
    found = []
    for name, command in commands(length).items():
        cost = whole_process([sys.executable, "-m", "ledger.cli.main", *command], configuration)
        print(f"  {name:28} {cost}", flush=True)
        found.append((name, cost))
    module = [sys.executable, "-m", "tests.benchmarks.growth", "--start", str(folder / "ledger")]
    cost = whole_process(module, configuration)
    print(f"  {'start of a driver':28} {cost}", flush=True)
    with tempfile.TemporaryDirectory() as copy:
        append(shutil.copytree(folder / "ledger", Path(copy) / "ledger"), length)
    return [*found, ("start of a driver", cost)]


def commands(length: Length) -> Mapping[str, Sequence[str]]:
    before_the_last_seventh_ms = length.end_ms - (length.end_ms - length.began_ms) // 7
    earlier = datetime.fromtimestamp(before_the_last_seventh_ms / 1000, tz=UTC).isoformat()
    one = ["--topic", "plain", "--partition", "5", "--offset", str(length.rounds * 250)]
    return {
        "translate 1,000 commits": ["offsets", "translate", "--flow", FLOW, "-o", "csv"],
        "translate one offset": ["offsets", "translate", "--flow", FLOW, *one],
        "translate between clusters": ["offsets", "translate", "--from", "east", "--to", "west", "-o", "csv"],
        "one offset between clusters": ["offsets", "translate", "--from", "east", "--to", "west", *one],
        "status": ["status", FLOW],
        "status as of earlier": ["status", FLOW, "--as-of", earlier],
        **{
            name: ["query", name, "--param", "from_cluster=east", "--param", "to_cluster=west", "-o", "csv"]
            for name in BETWEEN_CLUSTERS
        },
        "lag": ["query", "replication_lag", "--param", f"flow={FLOW}"],
        "audit L1": ["query", "audit_l1_tiling"],
    }


def whole_process(command: Sequence[str], configuration: Path) -> Cost:
    """Time and memory of a process from its start to its end, which is at the deadline at the latest."""
    began = time.monotonic()
    environment = {**os.environ, "MIRROR_LEDGER_CONFIG": str(configuration)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed was compiled before
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=stderr)
        is_late = threading.Timer(DEADLINE_S, process.kill)
        is_late.start()
        _, status, usage = os.wait4(process.pid, 0)
        is_late.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        stderr.seek(0)
        lines = stderr.read().decode(errors="replace").strip().splitlines()
    failure = (
        f"exit code {process.returncode}: {lines[-1][:200] if lines else ''}" if process.returncode else None
    )
    return Cost(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, failure)


def start_of_a_driver(path: str) -> None:
    """What `run` asks the ledger before the first round."""
    state = DeltaLedgerState(open_ledger(path))
    asked: Sequence[Callable[[], object]] = (
        lambda: state.last_claim(f"flow:{FLOW}"),
        lambda: state.requests(FLOW),
        state.identities,
        lambda: state.positions(FLOW),
        lambda: state.stopped_partitions(FLOW),
        lambda: state.acceptances(FLOW),
        lambda: state.open_findings(FLOW),
        lambda: state.last_checkpoints("east"),
        lambda: state.last_high_watermarks("east"),
        lambda: state.last_high_watermarks("west"),
        lambda: state.last_topic_states("east"),
        lambda: state.former_copies("west", {"plain": "plain-target", "compacted": "compacted-target"}),
        lambda: state.adoptions({"plain-source", "compacted-source"}),
    )
    for ask in asked:
        ask()


def append(path: Path, length: Length) -> None:
    """Rounds of a driver behind all that is there."""
    log = DeltaFactLog(str(path), SystemClock())
    claim = WriterClaim("recorder:east", 1)
    took = []
    for number in range(length.rounds + 1, length.rounds + 1 + APPENDS):
        rows = rows_to_append("high_watermarks", length, number)
        began = time.monotonic()
        log.append(claim, "high_watermarks", number, rows)
        took.append(time.monotonic() - began)
    p99 = statistics.quantiles(took, n=100)[98]
    print(
        f"  {'append':28} median {statistics.median(took) * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms", flush=True
    )


def plot(costs: Mapping[str, Mapping[Length, Cost]]) -> None:
    """A bar for each length; as long as the time that it took, of the longest."""
    for name, by_length in costs.items():
        longest = max(cost.seconds for cost in by_length.values())
        print(f"\n{name}")
        for length, cost in by_length.items():
            bar = "#" * max(1, round(_WIDTH * cost.seconds / longest))
            print(f"  {length.name:34} {bar} {cost}")


if __name__ == "__main__":
    main()
