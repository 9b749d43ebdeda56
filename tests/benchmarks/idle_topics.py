"""What topics cost that nobody writes to: one flow over thousands of them, on real brokers.

    python -m tests.benchmarks.idle_topics [--topics 3000] [--seconds 60] [--busy]

The driver is a process of its own, started twice: it creates the target topics and takes everything on, runs
without a record to copy, stops; and it finds all of it in the ledger. Told are the time from the driver's
start until the ledger has the beginning of every partition, how long a round took that could have been as
short as `round_seconds`, and what the driver's processes (Python, JVM, workers) used then: CPU and memory.
With `--busy` somebody writes a small record to each topic every second: then the workers copy, and what the
driver costs beside that is the other two.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Producer
from deltalake import DeltaTable

from ledger.answers.maintenance import init_ledger
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.mirror.run import run_flow
from ledger.mirror.spark import local_session
from ledger.sandbox import Sandbox, SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.runs import FLOW

DEADLINE_S = 1_800.0
CREATED_AT_ONCE = 100
POLL_S = 0.5
SESSION = 3  # field of /proc/PID/stat behind the name
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=3_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--busy", action="store_true", help="a record each second to each topic")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(load_config(options.drive))
        return
    if options.write:
        write(options.write, names_of(options.topics))
        return
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder) / "sandbox")
        try:
            pair = sandbox.up(["east", "west"], 1)
            measure(pair, Path(folder), options.topics, options.seconds, is_busy=options.busy)
        finally:
            sandbox.down()


def drive(config: MirrorConfig) -> None:
    """A driver that tells the time at the end of each round, on a clock that all processes share."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    run_flow(
        config,
        FLOW,
        session=lambda: local_session(tasks=config.flow(FLOW).tasks),
        until_caught_up=False,
        stop=stop,
        on_round=lambda _so_far: print(time.monotonic(), flush=True),
    )


def names_of(topics: int) -> list[str]:
    return [f"idle-{number:05}" for number in range(topics)]


def write(servers: str, topics: Sequence[str]) -> None:
    """A record to each topic every second, until the process is ended."""
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
    )
    due = time.monotonic()
    while True:
        for topic in topics:
            producer.produce(topic, b"x" * 100)
            producer.poll(0)
        due += 1
        time.sleep(max(due - time.monotonic(), 0))


@contextmanager
def written_to(servers: str, topics: int, *, is_busy: bool) -> Iterator[None]:
    if not is_busy:
        yield
        return
    module = [
        sys.executable,
        "-m",
        "tests.benchmarks.idle_topics",
        "--write",
        servers,
        "--topics",
        str(topics),
    ]
    writer = subprocess.Popen(module)
    try:
        yield
    finally:
        writer.terminate()
        writer.wait(DEADLINE_S)


def measure(
    pair: Mapping[str, SandboxCluster], folder: Path, topics: int, seconds: float, *, is_busy: bool
) -> None:
    names = names_of(topics)
    for first in range(0, topics, CREATED_AT_ONCE):
        create_topics(pair["east"].bootstrap_servers, names[first : first + CREATED_AT_ONCE], partitions=1)
    config = write_config(folder, servers_of(pair), {FLOW: 'topics = ["idle-.*"]'})
    init_ledger(config)
    with written_to(pair["east"].bootstrap_servers, topics, is_busy=is_busy):
        for name in (f"{topics:,} new topics", f"{topics:,} known topics"):
            watch(name, config, topics, seconds)


def watch(name: str, config: MirrorConfig, topics: int, seconds: float) -> None:
    """One life of the driver, from its start to its end."""
    file = Path(config.file)
    told = file.with_suffix(".rounds")
    command = [sys.executable, "-m", "tests.benchmarks.idle_topics", "--drive", str(file)]
    with told.open("w") as rounds, file.with_suffix(".log").open("a") as errors:
        started = time.monotonic()
        driver = subprocess.Popen(command, stdout=rounds, stderr=errors, start_new_session=True)
        try:
            wait_for_rounds(driver, told, count=1)
            first_round = ends_of_rounds(told)[0] - started
            begun = begun_partitions(config)
            if begun != topics:
                raise SystemExit(f"{name}: the ledger has the beginning of {begun} partitions of {topics}")
            wait_for_rounds(driver, told, count=3)  # the first ones read everything once
            cpu_before, at = cpu_s(driver.pid), time.monotonic()
            time.sleep(seconds)
            used = {kind: after - cpu_before[kind] for kind, after in cpu_s(driver.pid).items()}
            took = time.monotonic() - at
            peaks = peaks_mb(driver.pid)
        finally:
            driver.send_signal(signal.SIGTERM)
            asked = time.monotonic()
            driver.wait(DEADLINE_S)
            stopped_s = time.monotonic() - asked
    ends = [end for end in ends_of_rounds(told) if end >= at]
    lengths = [later - earlier for earlier, later in pairwise(ends)]
    report(name, config, first_round, lengths, {kind: cpu / took for kind, cpu in used.items()}, peaks)
    print(f"{'':24} stopped within {stopped_s:.1f} s", flush=True)


def report(
    name: str,
    config: MirrorConfig,
    first_round_s: float,
    lengths: list[float],
    cores: Mapping[str, float],
    peaks: Mapping[str, float],
) -> None:
    print(
        f"{name:24} first round ended after {first_round_s:6.1f} s; an idle round takes "
        f"{statistics.median(lengths):.2f} s (at most {max(lengths):.2f}, "
        f"round_seconds is {config.flow(FLOW).round_seconds:g})"
    )
    for kind, used in cores.items():
        print(f"{'':24} {kind:8} {100 * used:5.1f} % of a core, peak {peaks[kind]:6.0f} MB")


def begun_partitions(config: MirrorConfig) -> int:
    kinds = DeltaTable(f"{config.ledger.path}/offset_syncs").to_pyarrow_table(columns=["kind"])
    return int(kinds.column("kind").to_pylist().count("started"))


def wait_for_rounds(driver: "subprocess.Popen[bytes]", told: Path, *, count: int) -> None:
    wanted, deadline = len(ends_of_rounds(told)) + count, time.monotonic() + DEADLINE_S
    while len(ends_of_rounds(told)) < wanted:
        if driver.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the driver made no round; see {told.with_suffix('.log').read_text()[-2_000:]}")
        time.sleep(POLL_S)


def ends_of_rounds(told: Path) -> list[float]:
    return [float(line) for line in told.read_text().splitlines()]


# Processes of the driver ------------------------------------------------------------------------


def cpu_s(driver: int) -> dict[str, float]:
    """CPU seconds so far, by kind of process."""
    return summed(driver, lambda process: sum(map(int, after_name(process, "stat")[11:13])) / TICKS_PER_S)


def peaks_mb(driver: int) -> dict[str, float]:
    """Peak resident memory, by kind of process."""
    return summed(driver, resident_peak_mb)


def summed(driver: int, figure: Callable[[Path], float]) -> dict[str, float]:
    """Over the driver, the JVM, and the workers, which are of the driver's session."""
    sums = dict.fromkeys(("driver", "JVM", "workers"), 0.0)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if driver in (int(process.name), int(after_name(process, "stat")[SESSION])):
                sums[kind_of(process, driver)] += figure(process)
    return sums


def kind_of(process: Path, driver: int) -> str:
    if int(process.name) == driver:
        return "driver"
    return "JVM" if (process / "comm").read_text().startswith("java") else "workers"


def after_name(process: Path, file: str) -> list[str]:
    """Fields of proc(5) behind the command name, which may hold spaces."""
    return (process / file).read_text().rpartition(")")[2].split()


def resident_peak_mb(process: Path) -> float:
    lines = (process / "status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6


if __name__ == "__main__":
    main()
