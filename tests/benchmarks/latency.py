"""How long a record waits for a running mirror, beside MirrorMaker 2 on the same brokers, in one run.

    python -m tests.benchmarks.latency [--seconds 20] [--repeat 3] [--beside 0] [--keep]

A producer writes records of 100 B at a steady pace to four partitions. A record's latency counts from when a consumer
of the source has it to when a consumer of the target has it. Both mirrors are started in turn, and meet each linger and
pace in turn. CPU is from /proc over every process of a mirror's session, and over the brokers. `--beside`: so many
processes that do nothing but take a core. Loopback, one broker a cluster, replication factor 1. `--keep` writes the
medians, with the machine, to `latency.json` beside this file, of which a table in the documents is made.
"""

import argparse
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.sandbox import Sandbox, SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.benchmarks import kept
from tests.benchmarks.idle_topics import TICKS_PER_S, after_name, cpu_s
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.drivers import children, ended_afterwards
from tests.support.following import admin_of
from tests.support.mirror_maker import mirror_maker
from tests.support.runs import FLOW

PARTITIONS = 4
SIZE = 100
LINGERS_MS = (0, 5, 20)
PACES = (1_000, 10_000)
WARM_S = 3.0
DEADLINE_S = 120.0
MAKER = {"tasks.max": "4", "emit.checkpoints.enabled": "true"}
OURS, THEIRS = "mirror-ledger", "MirrorMaker 2"
KEPT = Path(__file__).with_suffix(".json")
SEEN = struct.Struct("<qd")  # a record's number, and when a consumer had it


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one mirror, linger and pace: milliseconds, and cores."""

    p50: float
    p99: float
    p999: float
    mirror_cores: float
    broker_cores: float
    load: float


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--beside", type=int, default=0)
    parser.add_argument("--lingers", type=int, nargs="+", default=LINGERS_MS)
    parser.add_argument("--paces", type=int, nargs="+", default=PACES)
    parser.add_argument(
        "--keep", action="store_true", help="write the figures where documents take them from"
    )
    parser.add_argument("--process", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        kind, *arguments = options.process
        beside: Mapping[str, Callable[..., None]] = {"write": write, "read": read, "spin": spin}
        beside[kind](*arguments)
        return
    cases = [(linger, pace) for pace in options.paces for linger in options.lingers]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sandbox = Sandbox(Path(folder) / "sandbox")
        stack.callback(sandbox.down)
        pair = sandbox.up(["east", "west"], 1)
        for _ in range(options.beside):
            stack.enter_context(process("spin"))
        print(f"MirrorMaker 2 with {MAKER}, -Xmx1g", flush=True)
        found: defaultdict[tuple[str, int, int], list[Figures]] = defaultdict(list)
        for number in range(options.repeat):
            for name in (OURS, THEIRS):
                own = Path(folder) / f"{name}-{number}".replace(" ", "-")
                own.mkdir()
                for case, figures in measured(name, pair, own, f"paced-{number}", cases, options.seconds):
                    found[name, *case].append(figures)
                    report(name, *case, [figures])
        print("Medians:", flush=True)
        results = []
        for linger, pace in cases:
            for name in (OURS, THEIRS):
                runs = found[name, linger, pace]
                report(name, linger, pace, runs)
                middles = {field: middle(runs, field) for field in Figures.__slots__}
                of = f"{linger} {pace} {options.beside}"
                results.append({"case": of, "mirror": name, "runs": len(runs), **middles})
        if options.keep:
            kept.keep(KEPT, results, "case", MAKER)


def middle(figures: Sequence[Figures], field: str) -> float:
    return round(statistics.median(float(getattr(one, field)) for one in figures), 3)


def report(name: str, linger: int, pace: int, figures: Sequence[Figures]) -> None:
    p99 = sorted(one.p99 for one in figures)
    of = partial(middle, figures)
    print(
        f"{name:14} linger {linger:2} ms {pace:6,}/s: p50 {of('p50'):6.1f}, p99 {of('p99'):7.1f} "
        f"({p99[0]:.1f} to {p99[-1]:.1f}), p99.9 {of('p999'):7.1f} ms; cores {of('mirror_cores'):.2f}, "
        f"brokers {of('broker_cores'):.2f}; load {of('load'):.1f}",
        flush=True,
    )


# One mirror ---------------------------------------------------------------------------------------


def measured(
    name: str,
    pair: Mapping[str, SandboxCluster],
    folder: Path,
    topic: str,
    cases: Sequence[tuple[int, int]],
    seconds: float,
) -> Iterator[tuple[tuple[int, int], Figures]]:
    """Each case in the life of one mirror, which has a topic of its own."""
    servers = servers_of(pair)
    own = f"{topic}-{'ours' if name == OURS else 'maker'}"
    create_topics(servers["east"], [own], partitions=PARTITIONS)
    brokers = [broker.pid for cluster in pair.values() for broker in cluster.brokers if broker.pid]
    config = write_config(folder, servers, {FLOW: f'topics = ["{own}"]\nprefix = "east"'})
    with running(name, config, servers, own, folder) as driver:
        wait_until_copied(config, own)
        for linger, pace in cases:
            yield (linger, pace), measure(servers, own, folder, driver, brokers, linger, pace, seconds)


def running(
    name: str, config: MirrorConfig, servers: Mapping[str, str], topic: str, folder: Path
) -> AbstractContextManager[int]:
    """The mirror, as the process whose session it is."""
    return our_mirror(config, folder) if name == OURS else their_mirror(servers, topic, folder)


@contextmanager
def our_mirror(config: MirrorConfig, folder: Path) -> Iterator[int]:
    init_ledger(config)
    command = [sys.executable, "-m", "ledger.cli.main", "--config", config.file, "run", FLOW]
    with ended_afterwards(command, folder / "ours.log") as process:
        yield process.pid


@contextmanager
def their_mirror(servers: Mapping[str, str], topic: str, folder: Path) -> Iterator[int]:
    before = set(children(os.getpid()))
    clusters = {"east": servers["east"], "west": servers["west"]}
    with mirror_maker(clusters, topic, folder, jvm=("-Xmx1g",), more=MAKER):
        [pid] = set(children(os.getpid())) - before
        yield pid


def wait_until_copied(config: MirrorConfig, topic: str) -> None:
    """Records written to every partition have come to the target."""
    producer = Producer({"bootstrap.servers": config.cluster("east").bootstrap_servers})
    for partition in range(PARTITIONS):
        producer.produce(topic, SEEN.pack(-1, 0.0), partition=partition)
    producer.flush(30)
    at = [(f"east.{topic}", partition) for partition in range(PARTITIONS)]
    with admin_of(config, "west") as admin:
        wait_until(
            lambda: (
                f"east.{topic}" in admin.topics()
                and all(end.high_watermark for end in admin.ends(at).values())
            ),
            "nothing was copied",
        )


def wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"{otherwise} within {DEADLINE_S:g} s")
        time.sleep(0.1)


def measure(
    servers: Mapping[str, str],
    topic: str,
    folder: Path,
    driver: int,
    brokers: Sequence[int],
    linger: int,
    pace: int,
    seconds: float,
) -> Figures:
    sides = {"east": topic, "west": f"east.{topic}"}
    files = {side: folder / f"{side}-{linger}-{pace}.seen" for side in sides}
    with ExitStack() as stack:
        for side, name in sides.items():
            stack.enter_context(process("read", servers[side], name, str(files[side])))
        wait_until(lambda: all(file.exists() for file in files.values()), "no consumer has begun")
        writer = stack.enter_context(
            process("write", servers["east"], topic, str(linger), str(pace), str(WARM_S + seconds))
        )
        wait_until(lambda: files["west"].stat().st_size > 0, "no record has come")
        before = sum(cpu_s(driver).values()), cpu_of(brokers), time.monotonic()
        writer.wait(seconds + DEADLINE_S)
        took = time.monotonic() - before[2]
        cores = (sum(cpu_s(driver).values()) - before[0]) / took, (cpu_of(brokers) - before[1]) / took
        time.sleep(WARM_S)
        wait_until(
            lambda: files["west"].stat().st_size >= files["east"].stat().st_size, "not all records have come"
        )
    source, target = seen(files["east"]), seen(files["west"])
    counted = sorted(source)[int(pace * WARM_S) :]
    lost = [number for number in counted if number not in target]
    if not counted or lost:
        raise SystemExit(f"{len(lost)} of {len(counted)} records did not come to {sides['west']}")
    waits = sorted(max(0.0, target[number] - source[number]) * 1000 for number in counted)
    p50, p99, p999 = (waits[min(len(waits) - 1, int(len(waits) * share))] for share in (0.5, 0.99, 0.999))
    return Figures(p50, p99, p999, *cores, os.getloadavg()[0])


def cpu_of(pids: Sequence[int]) -> float:
    stats = [after_name(Path(f"/proc/{pid}"), "stat") for pid in pids]
    return sum(sum(map(int, stat[11:13])) for stat in stats) / TICKS_PER_S


def seen(file: Path) -> dict[int, float]:
    content = file.read_bytes()
    return {number: at for number, at in SEEN.iter_unpack(content[: len(content) // SEEN.size * SEEN.size])}


# Processes beside ---------------------------------------------------------------------------------


@contextmanager
def process(*arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """One of the functions below, in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.latency", "--process", *arguments]
    started = subprocess.Popen(command)
    try:
        yield started
    finally:
        started.terminate()
        started.wait(DEADLINE_S)


def write(servers: str, topic: str, linger: str, pace: str, seconds: str) -> None:
    """Numbered records at a steady pace, a few each millisecond."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": int(linger), "acks": "all"})
    begun, number, padding = time.monotonic(), 0, b"x" * (SIZE - SEEN.size)
    while (passed := time.monotonic() - begun) < float(seconds):
        while number < int(passed * int(pace)):
            producer.produce(topic, SEEN.pack(number, 0.0) + padding, partition=number % PARTITIONS)
            number += 1
        producer.poll(0)
        time.sleep(0.001)
    assert producer.flush(60) == 0


_UNTIL_LED = Retrying(
    retry=retry_if_exception_type(KafkaException),
    stop=stop_after_delay(60),
    wait=wait_fixed(0.2),
    reraise=True,
)
"""A topic that was made just now may have no leader yet."""


def read(servers: str, topic: str, file: str) -> None:
    """Notes when each record was there, from now on, until it is asked to end."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "latency", "enable.auto.commit": False})
    at = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    for attempt in _UNTIL_LED:
        with attempt:
            ends = [consumer.get_watermark_offsets(partition, timeout=30)[1] for partition in at]
    consumer.assign([TopicPartition(topic, one.partition, end) for one, end in zip(at, ends, strict=True)])
    with Path(file).open("wb", buffering=SEEN.size * 32) as notes:
        while not asked:
            message = consumer.poll(0.1)
            if message is None:
                notes.flush()
            elif message.error() is None:
                notes.write(SEEN.pack(SEEN.unpack_from(message.value() or b"")[0], time.monotonic()))
    consumer.close()


def spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
