"""How long a record waits for a running mirror, beside MirrorMaker 2 on the same brokers, in one run.

    python -m tests.benchmarks.latency [paced] [idle] [--seconds 20] [--repeat 3] [--beside 0] [--keep]

A producer writes records of 100 B at a steady pace to four partitions. A record's latency counts from when a consumer
of the source has it to when a consumer of the target has it. The mirrors are started in turn: this one, MirrorMaker 2
with the producer that Kafka gives it (`linger.ms` is 5), and MirrorMaker 2 with a producer that does not wait. `paced`:
each meets each linger of the first producer and each pace in turn. `idle`: nobody writes for 15 s, then 1,000 records
come within a second, again and again; of these seconds this mirror and the quick MirrorMaker 2 are measured. CPU is
from /proc over every process of a mirror's session, and over the brokers. `--beside`: so many processes that do nothing
but take a core. Loopback, one broker a cluster, replication factor 1. `--keep` writes the figures, with the machine and
the day, to `latency.json` beside this file, of which a table in the documents is made.
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
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
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
IDLE_S, IDLE_PACE, BURSTS = 15.0, 1_000, 4
MAKER = {"tasks.max": "4", "emit.checkpoints.enabled": "true"}
OURS, THEIRS, QUICK = "mirror-ledger", "MirrorMaker 2", "MirrorMaker 2, linger.ms=0"
MAKERS = {
    THEIRS: MAKER,
    QUICK: {**MAKER, "west.producer.linger.ms": "0", "west.producer.batch.size": "16384"},
}
"""MirrorMaker 2 as it is, and with a producer that sends each record once it has it, in small batches."""
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


@dataclass(frozen=True, slots=True)
class FirstSecond:
    """Milliseconds that records of one mirror waited, in the first second after nobody wrote."""

    seconds: int
    p50: float
    p99: float
    longest: float


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; both by default")
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
        beside: Mapping[str, Callable[..., None]] = {
            "write": write,
            "write-bursts": write_bursts,
            "read": read,
            "spin": spin,
        }
        beside[kind](*arguments)
        return
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"no kind {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sandbox = Sandbox(Path(folder) / "sandbox")
        stack.callback(sandbox.down)
        pair = sandbox.up(["east", "west"], 1)
        for _ in range(options.beside):
            stack.enter_context(process("spin"))
        for name, settings in MAKERS.items():
            print(f"{name}: {settings}, -Xmx1g", flush=True)
        for kind in options.kinds or KINDS:
            KINDS[kind](pair, Path(folder), options)


def paced(pair: Mapping[str, SandboxCluster], folder: Path, options: argparse.Namespace) -> None:
    cases = [(linger, pace) for pace in options.paces for linger in options.lingers]
    names = (OURS, *MAKERS)
    found: defaultdict[tuple[str, int, int], list[Figures]] = defaultdict(list)
    for number in range(options.repeat):
        for name in names:
            with mirrored(name, pair, folder, f"paced-{number}") as mirror:
                for linger, pace in cases:
                    figures = measure(mirror, pair, linger, pace, options.seconds)
                    found[name, linger, pace].append(figures)
                    report(name, linger, pace, [figures])
    print("Medians:", flush=True)
    results = []
    for linger, pace in cases:
        for name in names:
            runs = found[name, linger, pace]
            report(name, linger, pace, runs)
            middles = {field: middle(runs, field) for field in Figures.__slots__}
            of = f"{linger} {pace} {options.beside}"
            results.append({"case": of, "mirror": name, "runs": len(runs), **middles})
    if options.keep:
        kept.keep(KEPT, results, "case", MAKER)


def idle(pair: Mapping[str, SandboxCluster], folder: Path, options: argparse.Namespace) -> None:
    """Waits of all first seconds of a mirror are taken together."""
    waits: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(options.repeat):
        for name in (OURS, QUICK):
            with mirrored(name, pair, folder, f"idle-{number}") as mirror:
                found = first_seconds(mirror)
            waits[name] += found
            report_idle(name, BURSTS, found)
    print("Together:", flush=True)
    results = []
    for name, found in waits.items():
        figures = report_idle(name, options.repeat * BURSTS, found)
        of = f"{IDLE_PACE} after {IDLE_S:g} s, {options.beside} beside"
        results.append({"case": of, "mirror": name, **asdict(figures)})
    if options.keep:
        kept.keep(KEPT, results, "case", MAKER, kind="first_seconds")


KINDS: Mapping[str, Callable[[Mapping[str, SandboxCluster], Path, argparse.Namespace], None]] = {
    "paced": paced,
    "idle": idle,
}


def middle(figures: Sequence[Figures], field: str) -> float:
    return round(statistics.median(float(getattr(one, field)) for one in figures), 3)


def report(name: str, linger: int, pace: int, figures: Sequence[Figures]) -> None:
    p99 = sorted(one.p99 for one in figures)
    of = partial(middle, figures)
    print(
        f"{name:26} linger {linger:2} ms {pace:6,}/s: p50 {of('p50'):6.1f}, p99 {of('p99'):7.1f} "
        f"({p99[0]:.1f} to {p99[-1]:.1f}), p99.9 {of('p999'):7.1f} ms; cores {of('mirror_cores'):.2f}, "
        f"brokers {of('broker_cores'):.2f}; load {of('load'):.1f}",
        flush=True,
    )


def report_idle(name: str, seconds: int, waits: Sequence[float]) -> FirstSecond:
    p50, p99, longest = (round(at_share(waits, share), 3) for share in (0.5, 0.99, 1.0))
    print(
        f"{name:26} first second after {IDLE_S:g} s without records, {seconds} times, {len(waits):,} records: "
        f"p50 {p50:6.1f}, p99 {p99:7.1f}, longest {longest:7.1f} ms",
        flush=True,
    )
    return FirstSecond(seconds, p50, p99, longest)


def at_share(waits: Sequence[float], share: float) -> float:
    return sorted(waits)[min(len(waits) - 1, int(len(waits) * share))]


# One mirror ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror that runs. `driver`: the process whose session it is; `topic`: of the source."""

    servers: Mapping[str, str]
    folder: Path
    topic: str
    driver: int


@contextmanager
def mirrored(name: str, pair: Mapping[str, SandboxCluster], folder: Path, topic: str) -> Iterator[Mirror]:
    """A mirror with a topic of its own, while the body runs."""
    servers = servers_of(pair)
    own = f"{topic}-{'ours' if name == OURS else 'maker' if name == THEIRS else 'quick'}"
    below = folder / own
    below.mkdir()
    create_topics(servers["east"], [own], partitions=PARTITIONS)
    config = write_config(below, servers, {FLOW: f'topics = ["{own}"]\nprefix = "east"'})
    runs = our_mirror(config, below) if name == OURS else their_mirror(servers, own, below, MAKERS[name])
    with runs as driver:
        wait_until_copied(config, own)
        yield Mirror(servers, below, own, driver)


@contextmanager
def our_mirror(config: MirrorConfig, folder: Path) -> Iterator[int]:
    init_ledger(config)
    command = [sys.executable, "-m", "ledger.cli.main", "--config", config.file, "run", FLOW]
    with ended_afterwards(command, folder / "ours.log") as process:
        yield process.pid


@contextmanager
def their_mirror(
    servers: Mapping[str, str], topic: str, folder: Path, settings: Mapping[str, str]
) -> Iterator[int]:
    before = set(children(os.getpid()))
    clusters = {"east": servers["east"], "west": servers["west"]}
    with mirror_maker(clusters, topic, folder, jvm=("-Xmx1g",), more=settings):
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
    mirror: Mirror, pair: Mapping[str, SandboxCluster], linger: int, pace: int, seconds: float
) -> Figures:
    brokers = [broker.pid for cluster in pair.values() for broker in cluster.brokers if broker.pid]
    numbers = str(linger), str(pace), str(WARM_S + seconds)
    with consumed(mirror, f"{linger}-{pace}") as files:
        with process("write", mirror.servers["east"], mirror.topic, *numbers) as writer:
            wait_until(lambda: files["west"].stat().st_size > 0, "no record has come")
            before = sum(cpu_s(mirror.driver).values()), cpu_of(brokers), time.monotonic()
            writer.wait(seconds + DEADLINE_S)
            took = time.monotonic() - before[2]
            used = sum(cpu_s(mirror.driver).values()) - before[0], cpu_of(brokers) - before[1]
        wait_until_consumed(files)
    waits = waits_of(files, int(pace * WARM_S))
    p50, p99, p999 = (at_share(waits, share) for share in (0.5, 0.99, 0.999))
    return Figures(p50, p99, p999, used[0] / took, used[1] / took, os.getloadavg()[0])


def first_seconds(mirror: Mirror) -> list[float]:
    with consumed(mirror, "idle") as files:
        with process("write-bursts", mirror.servers["east"], mirror.topic) as writer:
            writer.wait(BURSTS * (IDLE_S + 1) + DEADLINE_S)
        wait_until_consumed(files)
    return waits_of(files, int(IDLE_PACE * WARM_S))


@contextmanager
def consumed(mirror: Mirror, name: str) -> Iterator[Mapping[str, Path]]:
    """Files to which consumers of both sides write what they have, while the body runs."""
    topics = {"east": mirror.topic, "west": f"east.{mirror.topic}"}
    files = {side: mirror.folder / f"{side}-{name}.seen" for side in topics}
    with ExitStack() as stack:
        for side, topic in topics.items():
            stack.enter_context(process("read", mirror.servers[side], topic, str(files[side])))
        wait_until(lambda: all(file.exists() for file in files.values()), "no consumer has begun")
        yield files


def wait_until_consumed(files: Mapping[str, Path]) -> None:
    time.sleep(WARM_S)
    wait_until(
        lambda: files["west"].stat().st_size >= files["east"].stat().st_size, "not all records have come"
    )


def waits_of(files: Mapping[str, Path], left_out: int) -> list[float]:
    """Milliseconds between both sides, of each record but so many that came first."""
    source, target = seen(files["east"]), seen(files["west"])
    counted = sorted(source)[left_out:]
    lost = [number for number in counted if number not in target]
    if not counted or lost:
        raise SystemExit(f"{len(lost)} of {len(counted)} records did not come to the target")
    return [max(0.0, target[number] - source[number]) * 1000 for number in counted]


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
    write_paced(producer, topic, range(int(int(pace) * float(seconds))), int(pace))


def write_bursts(servers: str, topic: str) -> None:
    """Numbered records while all warms up, then a second of them after each time without any."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "acks": "all"})
    warm = int(WARM_S * IDLE_PACE)
    write_paced(producer, topic, range(warm), IDLE_PACE)
    for first in range(warm, warm + BURSTS * IDLE_PACE, IDLE_PACE):
        time.sleep(IDLE_S)
        write_paced(producer, topic, range(first, first + IDLE_PACE), IDLE_PACE)


def write_paced(producer: Producer, topic: str, numbers: range, pace: int) -> None:
    begun, padding = time.monotonic(), b"x" * (SIZE - SEEN.size)
    for count, number in enumerate(numbers):
        while count >= (time.monotonic() - begun) * pace:
            producer.poll(0)
            time.sleep(0.001)
        producer.produce(topic, SEEN.pack(number, 0.0) + padding, partition=number % PARTITIONS)
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
