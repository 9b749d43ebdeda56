"""What a ledger of days, of a year, and of a thousand partitions costs: answers, a driver's start, an append, and disk.

    python -m tests.benchmarks.growth [--lengths LENGTH,...] [--runs 3] [--keep FOLDER] [--plot FILE]

A length is rounds of five seconds times partitions, with `x2` both ways, `x1000g100` for a thousand groups that have
commits on a hundred partitions each, and `xone` where one topic has all partitions, so that each of these groups has an
answer for all of them. With `xtransactional` one topic has a transaction a second in each of its partitions, both ways;
groups of `east` have commits all over the last day, groups of `west` all over the history ("translate commits of all
times"), and commit again after so many rounds (`xe3600`). Of these two kinds only what has a limit is measured. A
ledger is written as files (`long_ledgers`, `long_projections`), or taken from the folder where an earlier run kept it,
and maintained by the command. Commands are whole processes, as people type them: medians of their time on the wall,
their CPU time (user and system) and their peak of memory. Both clusters refuse connections. A past hour is a cut in the
middle of the history, at the very end of an hour, where the rows of that hour lie behind the last block of its
projections; it is compared with the same question now. A driver's start is what one asks the ledger before its first
round; an append is one round of its rows by the driver's own fact log. The CPU time is compared with a limit, because
it hardly depends on what else the machine does; the plot shows it over length. A limit is a goal, and the program may
be far from it: then the benchmark prints how far, measures all the rest, and fails at its end. A process that takes
more than `MEMORY_MB` is ended.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ledger.clock import SystemClock
from ledger.facts.state import WriterClaim
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.benchmarks.long_ledgers import FLOW, FLOW_BACK, Length, Topics, rows_to_append, write_ledger
from tests.benchmarks.long_projections import project
from tests.support.config_files import write_config

DAY, YEAR = 17_280, 365 * 17_280
LENGTHS = ",".join(
    (
        *(f"{DAY}x21", f"{30 * DAY}x21", f"{30 * DAY}x21x2", f"{YEAR}x21"),
        *(f"{DAY}x1000x1000g100", f"{3 * DAY}x1000x1000g100", f"{DAY}x998x1000g100xone"),
        f"{YEAR}x5x2x1000g5xtransactionalxe3600",
    )
)
APPENDS = 200
DEADLINE_S = 900.0
MEMORY_MB = min(8_000.0, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2e6)
"""No more than half of the machine's memory: the machine has to survive."""
_HAS_BLOCKERS = 4
_OPTIONS = 'topics = [".*"]\ntopic_naming = "identity"\n'
_MANY_PARTITIONS = 1_000
_THREE_DAYS_BESIDE_ONE = 1.15
_EARLIER, _PAST_HOUR = " a day after the beginning", " of a past hour"
_BESIDE_NOW = 2.0
"""How many times what it is now a question about the past may cost."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process: seconds on the wall and of CPU, and the most memory that it held. `failure`: why it has none."""

    seconds: float
    cpu_s: float
    peak_mb: float
    failure: str | None = None

    @classmethod
    def median(cls, costs: Sequence["Cost"]) -> "Cost":
        """Of each figure by itself; a failure of any."""
        seconds, cpu_s, peak_mb = (
            statistics.median(getattr(cost, name) for cost in costs)
            for name in ("seconds", "cpu_s", "peak_mb")
        )
        return cls(seconds, cpu_s, peak_mb, next((cost.failure for cost in costs if cost.failure), None))

    def __str__(self) -> str:
        told = f"{self.seconds:6.2f} s, CPU {self.cpu_s:6.2f} s, {self.peak_mb:5,.0f} MB"
        return told if self.failure is None else f"{told}: {self.failure}"


@dataclass(frozen=True, slots=True)
class Limit:
    """What a question may cost at most, whatever the history; None: that much memory nobody has named."""

    seconds: float
    peak_mb: float | None = None

    def excess(self, cost: Cost) -> str:
        """How many times the limit a cost is, where it is over; empty: it is within."""
        over = [_times(cost.cpu_s, self.seconds, "s")] if cost.cpu_s > self.seconds else []
        if self.peak_mb is not None and cost.peak_mb > self.peak_mb:
            over.append(_times(cost.peak_mb, self.peak_mb, "MB"))
        return ", ".join(over)


def _times(measured: float, limit: float, unit: str) -> str:
    return f"{measured / limit:.2f} times the limit of {limit:,g} {unit}"


TRANSLATE, ANYWHERE, FLOW_ALONE, ONE_OFFSET, ONE_GROUP = (
    "translate between clusters",
    "translate commits of all times",
    "translate --flow",
    "translate one offset",
    "translate one group",
)
STATUS, PLAN, LAG = "status", "plan failover", "lag"
LIMITS: Mapping[str, Limit] = {
    TRANSLATE: Limit(3.0, 500),
    FLOW_ALONE: Limit(3.0, 500),
    ONE_OFFSET: Limit(1.3, 300),
    STATUS: Limit(1.5),
    PLAN: Limit(5.0, 600),
}
LIMITS_OF_MANY: Mapping[str, Limit] = {
    TRANSLATE: Limit(12.0, 1_500),
    FLOW_ALONE: Limit(12.0, 1_500),
    ONE_GROUP: Limit(2.0),
    STATUS: Limit(3.0),
    PLAN: Limit(20.0, 2_000),
}
LIMITS_OF_ONE_TOPIC: Mapping[str, Limit] = {TRANSLATE: Limit(8.0, 2_000), PLAN: Limit(20.0, 2_500)}
LIMITS_OF_TRANSACTIONS: Mapping[str, Limit] = {TRANSLATE: Limit(2.0, 400), ANYWHERE: Limit(7.0, 1_200)}
Costs = dict[str, dict[Length, Cost]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lengths", default=LENGTHS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", help="Questions whose names have this in them.", default="")
    parser.add_argument("--plot", type=Path, default=Path("build/growth.svg"))
    parser.add_argument(
        "--keep", type=Path, help="Ledgers are written to this folder, unless they are there."
    )
    parser.add_argument("--start", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start:
        start_of_a_driver(options.start)
        return
    costs: Costs = {}
    for text in options.lengths.split(","):
        length = Length.parsed(text)
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.keep / text if options.keep else Path(temporary)
            for name, cost in measured(folder, length, options.runs, options.only).items():
                costs.setdefault(name, {})[length] = cost
    plot(costs, options.plot)
    if wrong := [*failures(costs), *excesses(costs)]:
        print("\n" + "\n".join(wrong))
        sys.exit(1)


def measured(folder: Path, length: Length, runs: int, only: str) -> Mapping[str, Cost]:
    began = time.monotonic()
    if not (folder / "ledger").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        write_ledger(str(folder / "ledger"), length)
        project(str(folder / "ledger"), length, now_ms=SystemClock().now_ms())
    servers = {"east": "127.0.0.1:1", "west": "127.0.0.1:2"}
    flows = {FLOW: _OPTIONS}
    if length.is_both_ways:
        back = f'source = "west"\ntarget = "east"\n{_OPTIONS}opposite = "{FLOW}"\n'
        flows = {FLOW: f'{_OPTIONS}opposite = "{FLOW_BACK}"\n', FLOW_BACK: back}
    configuration = Path(write_config(folder, servers, flows).file)
    maintenance = whole_process([sys.executable, "-m", "ledger.cli.main", "maintain"], configuration)
    size_mb = sum(file.stat().st_size for file in (folder / "ledger").rglob("*") if file.is_file()) / 1e6
    print(
        f"{length.name}: {size_mb:,.0f} MB on disk, {size_mb / length.days:,.1f} MB a day; written in "
        f"{time.monotonic() - began:.0f} s",
        flush=True,
    )
    print(f"  {'maintenance':28} {maintenance}", flush=True)
    found = dict[str, Cost]()
    asked = {
        name: ([sys.executable, "-m", "ledger.cli.main", *command], name.startswith(PLAN))
        for name, command in commands(length).items()
    }
    module = [sys.executable, "-m", "tests.benchmarks.growth", "--start", str(folder / "ledger")]
    asked["start of a driver"] = (module, False)
    for name, (command, may_have_blockers) in asked.items():
        if only not in name or not is_measured(name, length):
            continue
        fine = (0, _HAS_BLOCKERS) if may_have_blockers else (0,)
        cost = Cost.median(list(costs_of(command, configuration, fine, runs)))
        found[name] = cost
        now = found.get(_now(name))
        print(f"  {name:52} {cost} {excess(name, length, cost, now) or beside(cost, now)}", flush=True)
    if not only and length.topics == Topics.MIXED:
        with tempfile.TemporaryDirectory(dir=folder) as copy:
            append(linked(folder / "ledger", Path(copy) / "ledger"), length)
    return found


def linked(ledger: Path, copy: Path) -> Path:
    """A copy with the same files of rows: they never change."""
    return Path(shutil.copytree(ledger, copy, copy_function=_link))


def _link(source: str, target: str) -> str:
    if "_delta_log" in source:
        return str(shutil.copy2(source, target))
    os.link(source, target)
    return target


def commands(length: Length) -> Mapping[str, Sequence[str]]:
    between = ["offsets", "translate", "--from", "east", "--to", "west"]
    one = ["--topic", "plain", "--partition", "5", "--offset", str(length.rounds * 250)]
    now = {
        TRANSLATE: [*between, "-o", "csv"],
        FLOW_ALONE: ["offsets", "translate", "--flow", FLOW, "-o", "csv"],
        ONE_OFFSET: [*between, *one],
        ONE_GROUP: [*between, "--group", "group-7", "-o", "csv"],
        STATUS: ["status", FLOW],
        PLAN: ["plan", "failover", "--from", "east", "--to", "west", "--fence", "none", "-o", "json"],
        LAG: ["query", "replication_lag", "--param", f"flow={FLOW}"],
    }
    if length.topics == Topics.TRANSACTIONAL:
        now[ANYWHERE] = ["offsets", "translate", "--from", "west", "--to", "east", "-o", "csv"]
    if length.past_hour_ms < length.began_ms:
        return now
    hour = ["--as-of", str(length.past_hour_ms)]
    asked = {
        **now,
        ONE_OFFSET + _PAST_HOUR: [*between, *one[:-1], str(length.rounds * 125), *hour],
        **{name + _PAST_HOUR: [*now[name], *hour] for name in (TRANSLATE, ANYWHERE, STATUS) if name in now},
    }
    if length.days < 2:
        return asked
    at = datetime.fromtimestamp((length.began_ms + 90_000_000) / 1000, tz=UTC).isoformat()
    earlier = [*one[:-1], str(DAY * 250)]
    return {
        **asked,
        TRANSLATE + _EARLIER: [*now[TRANSLATE], "--as-of", at],
        ONE_OFFSET + _EARLIER: [*between, *earlier, "--as-of", at],
        STATUS + _EARLIER: [*now[STATUS], "--as-of", at],
    }


def limits_of(length: Length) -> Mapping[str, Limit]:
    """What questions may cost at most on a ledger of that length, by their names."""
    if length.topics == Topics.ONE:
        return LIMITS_OF_ONE_TOPIC
    if length.topics == Topics.TRANSACTIONAL:
        return LIMITS_OF_TRANSACTIONS
    return LIMITS_OF_MANY if length.partitions >= _MANY_PARTITIONS else LIMITS


def is_measured(name: str, length: Length) -> bool:
    """Say whether a question is asked of a ledger of that length: where one topic has all partitions, those that have a
    limit."""
    return length.topics == Topics.MIXED or name.removesuffix(_PAST_HOUR) in limits_of(length)


def excess(name: str, length: Length, cost: Cost, now: Cost | None) -> str:
    """How far a question of that name is over its limits, of which one is by its cost now; empty: it is within, or has
    none."""
    limits = limits_of(length)
    if limits is LIMITS_OF_MANY and name.endswith(_EARLIER):
        limit = limits.get(_now(name))
        return replace(limit, seconds=_BESIDE_NOW * limit.seconds).excess(cost) if limit else ""
    if now and cost.cpu_s > _BESIDE_NOW * now.cpu_s:
        return beside(cost, now)
    return limits[name].excess(cost) if name in limits else ""


def beside(cost: Cost, now: Cost | None) -> str:
    """How many times what it is now a question about the past costs; empty: nothing is known of now, or it is now."""
    if now is None or cost is now or now.failure or cost.failure:
        return ""
    return f"{cost.cpu_s / now.cpu_s:.2f} times what it is now"


def _now(name: str) -> str:
    """The same question without its time in the past."""
    return name.removesuffix(_EARLIER).removesuffix(_PAST_HOUR)


def failures(costs: Costs) -> Sequence[str]:
    return [
        f"{name}, {length.name}: {cost.failure}"
        for name, by_length in costs.items()
        for length, cost in by_length.items()
        if cost.failure
    ]


def excesses(costs: Costs) -> Sequence[str]:
    """What costs more than it may: by itself, as of the past beside now, after three days beside after one."""
    found = []
    for name, by_length in costs.items():
        for length, cost in by_length.items():
            if over := excess(name, length, cost, costs.get(_now(name), {}).get(length)):
                found.append(f"{name}, {length.name}: {over}")
            first = replace(length, rounds=DAY)
            if (
                length.partitions >= _MANY_PARTITIONS
                and length.rounds == 3 * DAY
                and first in by_length
                and cost.cpu_s > _THREE_DAYS_BESIDE_ONE * by_length[first].cpu_s
            ):
                times = cost.cpu_s / by_length[first].cpu_s
                found.append(f"{name}, {length.name}: {times:.2f} times what it is after a day")
    return found


def costs_of(command: Sequence[str], configuration: Path, fine: Sequence[int], runs: int) -> Iterator[Cost]:
    """Costs of one run after another; the first run that fails is the last one."""
    for _ in range(runs):
        yield (cost := whole_process(command, configuration, fine))
        if cost.failure:
            return


def whole_process(command: Sequence[str], configuration: Path, fine: Sequence[int] = (0,)) -> Cost:
    """Time and memory of a process from its start to its end.

    A process that is still there at the deadline, or has more than `MEMORY_MB`, is ended; that is a failure, and so is
    an exit code that is not `fine`.
    """
    environment = {**os.environ, "MIRROR_LEDGER_CONFIG": str(configuration)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed was compiled before
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", _MEASURE, str(int(MEMORY_MB * 1e6)), *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        is_late = threading.Timer(DEADLINE_S, os.killpg, (process.pid, signal.SIGKILL))
        is_late.start()
        printed, _ = process.communicate()
        is_late.cancel()
        stderr.seek(0)
        lines = stderr.read().decode(errors="replace").strip().splitlines()
    if process.returncode != 0:
        return Cost(DEADLINE_S, DEADLINE_S, 0.0, f"ended after {DEADLINE_S:g} s")
    code, is_over, seconds, cpu_s, peak_mb = json.loads(printed)
    failure = None if code in fine else f"exit code {code}: {lines[-1][:200] if lines else ''}"
    if is_over:
        failure = f"out of memory: ended at {MEMORY_MB:,.0f} MB"
    return Cost(seconds, cpu_s, peak_mb, failure)


_MEASURE = """
import json, os, signal, sys, time
began = time.monotonic()
nowhere = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=nowhere)
most_pages, is_over = int(sys.argv[1]) // os.sysconf("SC_PAGE_SIZE"), False
while not (ended := os.wait4(pid, os.WNOHANG))[0]:
    with open(f"/proc/{pid}/statm") as memory:
        if int(memory.read().split()[1]) > most_pages:
            is_over = True
            os.kill(pid, signal.SIGKILL)
    time.sleep(0.01)
_, status, usage = ended
code, cpu_s = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
print(json.dumps([code, is_over, time.monotonic() - began, cpu_s, usage.ru_maxrss / 1024]))
"""
"""A small process in between: the peak that Linux says of a process is at least that of the one which started it."""


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


def plot(costs: Costs, file: Path) -> None:
    """For each question its CPU time by length, as SVG."""
    from tests.benchmarks.charts import bars  # each start of a driver would wait for it

    lengths = list(dict.fromkeys(length for by_length in costs.values() for length in by_length))
    found = {
        length.name: [
            None if (cost := of.get(length)) is None else round(cost.cpu_s, 2) for of in costs.values()
        ]
        for length in lengths
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(bars("CPU time of answers by the length of the ledger (s)", list(costs), found))
    print(f"\nplot: {file}")


if __name__ == "__main__":
    main()
