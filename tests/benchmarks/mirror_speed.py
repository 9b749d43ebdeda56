"""How fast a whole mirror job copies, beside MirrorMaker 2 on the same brokers, in one run.

    python -m tests.benchmarks.mirror_speed [CASE ...] [--megabytes 400] [--repeat 3] [--keep]

Of each case both mirrors copy the same records from `east` to `west`, in turn, each into a topic of its own; then a
task copies them alone, without Spark and without a ledger: what the mirror adds to the copying; and a loop appends
one batch of that again and again: what the target can take. What is timed is the target: the records behind those that
were there when it was first seen to have any, the second half apart, and from the start of the process to the first and
to the last. CPU, of the same records, and memory are from /proc over every process of a mirror (the driver, its JVM and
its workers), memory as the sum of their peaks. Loopback, one broker a cluster, replication factor 1. `sustained` gives
both brokers so little memory together, page cache included, that the source reads all from its disk, and fails if it
did not; this needs root and the memory controller of cgroup v1. `--keep` writes the figures, with the machine and the
day, to `mirror_speed.json` beside this file, of which `make references` writes the tables in the documents and draws
`conf/pictures/speed.svg`.
"""

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import TopicPartition
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.batches import batches, patch_for_target
from ledger.kafka.copying import answer_to
from ledger.kafka.network import KafkaNetwork
from ledger.kafka.requests import FetchItem, ProduceItem
from ledger.mirror.assignment import Assignment, CopyLimits
from ledger.mirror.task import CopyTask
from ledger.sandbox import Sandbox
from ledger.sandbox.workload import create_topics
from tests.benchmarks import kept
from tests.benchmarks.charts import bars
from tests.benchmarks.idle_topics import cpu_s, peaks_mb
from tests.support.checkout import CHECKOUT
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.copies import config_of
from tests.support.copy_tasks import copied_up_to, writers
from tests.support.drivers import children, ended_afterwards
from tests.support.following import admin_of
from tests.support.forwarder import forwarding
from tests.support.mirror_maker import mirror_maker
from tests.support.runs import FLOW

KEPT = Path(__file__).with_suffix(".json")
PICTURE = CHECKOUT / "conf" / "pictures" / "speed.svg"
DEADLINE_S = 120.0
POLL_S = 0.02
SHORTEST_S = 10 * POLL_S
"""Less is not measured: between two looks at the target all of it may have come."""
MIRRORS = OURS, THEIRS, ALONE, APPENDS = "Mirror Ledger", "MirrorMaker 2", "a task alone", "appends alone"
TUNED = {
    "tasks.max": "4",
    "emit.checkpoints.enabled": "true",
    "maker.consumer.max.poll.records": "10000",
    "maker.consumer.max.partition.fetch.bytes": "4194304",
    "maker.consumer.fetch.max.bytes": "16777216",
    "west.producer.batch.size": "524288",
    "west.producer.linger.ms": "20",
    "west.producer.buffer.memory": "67108864",
}
"""Of MirrorMaker 2: large batches, and no waiting for them."""


@dataclass(frozen=True)
class Case:
    """What is copied. `batch_records`: at most in a batch of the source, as of producers that wait for no others; None:
    as many as it takes. `round_trip_ms`: of a line between the mirror and the source. `brokers_mb`: the memory of both
    brokers together, page cache included; None: as much as there is."""

    name: str
    words: str
    size: int = 100
    partitions: int = 4
    codec: str = "none"
    batch_records: int | None = None
    log_append_time: bool = False
    round_trip_ms: int = 0
    brokers_mb: int | None = None
    megabytes: int = 400


CASES = (
    Case("100", "100 B"),
    Case("1024", "1 KiB", size=1_024, megabytes=800),
    Case("10240", "10 KiB", size=10_240),
    Case("lz4", "1 KiB, lz4", size=1_024, codec="lz4", megabytes=800),
    Case("zstd", "1 KiB, zstd", size=1_024, codec="zstd", megabytes=800),
    Case("hot", "1 KiB, one partition", size=1_024, partitions=1),
    Case("tiny-100", "100 B, batches of two", batch_records=2, megabytes=150),
    Case("tiny-1024", "1 KiB, batches of two", size=1_024, batch_records=2, megabytes=200),
    Case("log-100", "100 B, LogAppendTime", log_append_time=True, megabytes=200),
    Case("log-1024", "1 KiB, LogAppendTime", size=1_024, log_append_time=True),
    Case("many", "100 B, 1,000 partitions", partitions=1_000, megabytes=200),
    Case("far-100", "100 B, over 50 ms", round_trip_ms=50, megabytes=200),
    Case("far-1024", "1 KiB, over 50 ms", size=1_024, round_trip_ms=50, megabytes=200),
    Case("sustained", "1 KiB, from disk", size=1_024, brokers_mb=1_500, megabytes=3_000),
)
BY_NAME: Mapping[str, Case] = {case.name: case for case in CASES}


@dataclass(frozen=True)
class Figures:
    """One run of one mirror. `records`: behind those that were there first; `second_s`: of the second half of all;
    `first_s`, `whole_s`: from the start of its process to the first and to the last."""

    records: int
    copying_s: float
    second_s: float
    first_s: float
    whole_s: float
    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Result:
    """Of a case and a mirror: records and second halves a second, seconds, CPU seconds a million records, MB."""

    case: str
    mirror: str
    records: int
    rates: tuple[float, ...]
    second_rates: tuple[float, ...]
    first_s: float
    whole_s: float
    cpu_s: float
    peak_mb: float

    @classmethod
    def of(cls, case: Case, mirror: str, records: int, runs: Sequence[Figures]) -> "Result":
        def middle(figures: Iterable[float]) -> float:
            return round(statistics.median(figures), 2)

        assert all(one.copying_s >= SHORTEST_S for one in runs)

        return cls(
            case.name,
            mirror,
            records,
            tuple(sorted(round(one.records / one.copying_s) for one in runs)),
            tuple(sorted(round(records / 2 / one.second_s) for one in runs)),
            middle(one.first_s for one in runs),
            middle(one.whole_s for one in runs),
            middle(one.cpu_s * 1e6 / one.records for one in runs),
            middle(one.peak_mb for one in runs),
        )

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def second_rate(self) -> float:
        return statistics.median(self.second_rates)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(BY_NAME)}")
    parser.add_argument("--megabytes", type=at_least_one, help="in place of a case's own")
    parser.add_argument("--repeat", type=at_least_one, default=3)
    parser.add_argument(
        "--keep", action="store_true", help="write the figures where documents take them from"
    )
    parser.add_argument("--alone", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--appends", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for arguments, work in ((options.alone, copied), (options.appends, appended)):
        if arguments:
            alone(work, *arguments)
            return
    if unknown := set(options.cases) - set(BY_NAME):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(BY_NAME)}")
    found: list[Result] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sandbox = Sandbox(folder / "sandbox")
        stack.callback(sandbox.down)
        pair = sandbox.up(["east", "west"], 1, far=["east"])
        (broker,) = pair["east"].brokers
        pids = {alias: one.pid for alias, cluster in pair.items() for one in cluster.brokers if one.pid}
        for case in [BY_NAME[name] for name in options.cases] or CASES:
            if case.brokers_mb and not os.access(memory_group(), os.W_OK):
                print(f"{case.words:30} not measured: the memory of processes cannot be limited", flush=True)
                continue
            with ExitStack() as lines:
                servers = servers_of(pair)
                source = servers["east"]
                if case.round_trip_ms:
                    assert broker.far is not None
                    line = lines.enter_context(forwarding(broker.far))
                    line.slow(round_trip_s=case.round_trip_ms / 1_000)
                    servers = {**servers, "east": line.address}
                if case.brokers_mb:
                    lines.enter_context(limited(pids.values(), case.brokers_mb))
                megabytes = options.megabytes or case.megabytes
                found += compare(case, source, servers, pids["east"], folder, megabytes, options.repeat)
                if options.keep:
                    keep(found)


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1 is needed, got {number}")
    return number


def compare(
    case: Case,
    source: str,
    servers: Mapping[str, str],
    broker: int,
    folder: Path,
    megabytes: int,
    repeat: int,
) -> list[Result]:
    """`source`: where its records are produced; `servers`: where the mirrors reach both clusters; `broker`: the
    process of the source."""
    runs: dict[str, list[Figures]] = {name: [] for name in MIRRORS}
    records = megabytes * 1_000_000 // case.size
    settings = {"message.timestamp.type": "LogAppendTime"} if case.log_append_time else {}
    for number in range(repeat):
        topic = f"bench-{case.name}-{number}"
        own = folder / topic
        own.mkdir()
        config = write_config(own, servers, {FLOW: f'topics = ["{topic}"]\nprefix = "ours"'})
        init_ledger(config)
        create_topics(source, [topic], partitions=case.partitions, configuration=settings)
        fill(
            source,
            topic,
            case.size,
            records,
            case.partitions,
            codec=case.codec,
            batch_records=case.batch_records,
        )
        command = [sys.executable, "-m", "ledger.cli.main", "--config", config.file, "run", FLOW]
        module = [sys.executable, "-m", "tests.benchmarks.mirror_speed"]
        sizes = [str(case.partitions), str(records)]
        copying = [*module, "--alone", servers["east"], servers["west"], topic, *sizes]
        appending = [*module, "--appends", servers["west"], servers["west"], f"copied.{topic}", *sizes]
        mirrors: Mapping[str, tuple[AbstractContextManager[int], str]] = {
            OURS: (started(command, own / "ours.log"), f"ours.{topic}"),
            THEIRS: (tuned_maker(servers, topic, own), f"maker.{topic}"),
            ALONE: (started(copying, own / "alone.log"), f"copied.{topic}"),
            APPENDS: (started(appending, own / "appends.log"), f"appended.copied.{topic}"),
        }
        for name, (mirror, target) in mirrors.items():
            if case.brokers_mb:
                os.sync()  # what the mirror before it wrote
            before = read_mb(broker)
            runs[name].append(timed(mirror, config, target, case.partitions, records))
            if case.brokers_mb and name != APPENDS:
                require_from_disk(name, read_mb(broker) - before, megabytes)
        delete(source, topic)
        delete(servers["west"], *(target for _, target in mirrors.values()))
    found = [report(case, name, records, figures) for name, figures in runs.items()]
    return [one for one in found if one is not None]


def report(case: Case, name: str, records: int, figures: Sequence[Figures]) -> Result | None:
    """None: it was not measured."""
    if min(one.copying_s for one in figures) < SHORTEST_S:
        print(
            f"{case.words:30} {name:14} x {records:,}: not measured, all records came within {SHORTEST_S:g} s; "
            "--megabytes with a larger number",
            flush=True,
        )
        return None
    found = Result.of(case, name, records, figures)
    print(
        f"{case.words:30} {name:14} x {records:,}: {found.rate:10,.0f} records/s "
        f"({found.rates[0]:,.0f} to {found.rates[-1]:,.0f}), {found.rate * case.size / 1e6:4.0f} MB/s, second half "
        f"{statistics.median(found.second_rates):10,.0f}; first record after {found.first_s:4.1f} s, last after "
        f"{found.whole_s:5.1f} s; "
        f"CPU {found.cpu_s:6.2f} s per million records; {found.peak_mb:5.0f} MB",
        flush=True,
    )
    return found


def fill(
    servers: str,
    topic: str,
    size: int,
    records: int,
    partitions: int,
    *,
    codec: str = "none",
    batch_records: int | None = None,
) -> None:
    """Records of that many bytes, in turn over the partitions; None: as many in a batch as it takes.

    The bytes are random; of compressed records every other one is 0.
    """
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "batch.size": 262_144,
            "queue.buffering.max.kbytes": 524_288,
            "message.max.bytes": 2 * max(size, 1_000_000),
            "compression.type": codec,
            **({} if batch_records is None else {"batch.num.messages": batch_records}),
        }
    )
    values = [os.urandom(size) for _ in range(1 if codec == "none" else 997)]
    if codec != "none":
        values = [bytes(byte if at % 2 else 0 for at, byte in enumerate(value)) for value in values]
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number % len(values)], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(600) == 0


def memory_group() -> Path:
    """The control group whose memory this process, and what it starts, share; of cgroup v1."""
    groups = Path("/proc/self/cgroup").read_text().splitlines()
    own = [
        path for _, controllers, path in (line.split(":", 2) for line in groups) if controllers == "memory"
    ]
    return Path("/sys/fs/cgroup/memory", *(path.lstrip("/") for path in own))


@contextmanager
def limited(pids: Collection[int], megabytes: int) -> Iterator[None]:
    """Limit the memory of processes together, page cache included, until the body ends."""
    outer = memory_group()
    group = outer / f"mirror-speed-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(megabytes * 1_000_000))
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for pid in pids:
            (outer / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def read_mb(pid: int) -> float:
    """Megabytes that the process has read from disks so far."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("read_bytes:")) / 1e6


def require_from_disk(name: str, read: float, megabytes: int) -> None:
    """Fail if less than nine tenths were read from disk."""
    print(f"{'':30} {name:14} {read:,.0f} of {megabytes:,} MB were read from disk", flush=True)
    if read < 0.9 * megabytes:
        raise SystemExit("the source had the rest in memory: this is no copy from disk")


def delete(servers: str, *topics: str) -> None:
    """They would fill the disk, and be written to it while others are measured."""
    client = AdminClient({"bootstrap.servers": servers})  # held until it has answered
    for deleted in client.delete_topics(list(topics)).values():
        deleted.result(30)


def timed(
    mirror: AbstractContextManager[int], config: MirrorConfig, topic: str, partitions: int, records: int
) -> Figures:
    """From the start of a mirror's process until all records are in the topic of the target."""
    begun = time.monotonic()
    with admin_of(config, "west") as admin, mirror as pid:
        return _watched(admin, topic, partitions, records, begun, pid)


def _watched(admin: KafkaAdmin, topic: str, partitions: int, records: int, begun: float, pid: int) -> Figures:
    first_s, half_s, copied, at_first, used_s = 0.0, 0.0, 0, 0, 0.0
    asked = [(topic, partition) for partition in range(partitions)]
    while (now := time.monotonic()) < begun + DEADLINE_S:
        if topic in admin.topics():
            copied = sum(end.high_watermark for end in admin.ends(asked).values())
        now = time.monotonic()
        if copied and not first_s:
            first_s, at_first, used_s = now, copied, sum(cpu_s(pid).values())
        half_s = half_s or (now if copied >= records / 2 else 0.0)
        if copied >= records:
            used_s, peak_mb = sum(cpu_s(pid).values()) - used_s, sum(peaks_mb(pid).values())
            second_s = max(now - half_s, POLL_S)
            copying_s, whole_s = now - first_s, now - begun
            return Figures(records - at_first, copying_s, second_s, first_s - begun, whole_s, used_s, peak_mb)
        time.sleep(POLL_S)
    raise SystemExit(f"{topic}: {copied} of {records} records after {DEADLINE_S:.0f} s")


# Mirrors ------------------------------------------------------------------------------------------


@contextmanager
def started(command: Sequence[str], log: Path) -> Iterator[int]:
    with ended_afterwards(command, log) as process:
        yield process.pid


@contextmanager
def tuned_maker(servers: Mapping[str, str], topic: str, folder: Path) -> Iterator[int]:
    """As the process whose session it is."""
    before = set(children(os.getpid()))
    clusters = {"maker": servers["east"], "west": servers["west"]}
    with mirror_maker(clusters, topic, folder, jvm=("-Xmx1g",), more=TUNED):
        [pid] = set(children(os.getpid())) - before
        yield pid


Work = Callable[[KafkaNetwork, Sequence[TopicPartition], Sequence[TopicPartition], FlowProducer, int], None]


def alone(work: Work, east: str, west: str, topic: str, partitions: str, records: str) -> None:
    """Work from the partitions of a topic to those of one that is named by it, then wait to be ended."""
    gc.freeze()  # as Spark's workers do
    name, clock = f"{work.__name__}.{topic}", SystemClock()
    configs = config_of("east", east), config_of("west", west)
    with ExitStack() as stack:
        source, target = (stack.enter_context(closing(KafkaAdmin(one.name, one, clock))) for one in configs)
        target.create_topic(name, partitions=int(partitions), replication_factor=1, configuration={})
        while name not in target.topics():
            time.sleep(POLL_S)
        at_source, at_target = (
            [TopicPartition(one, topic_id, partition) for partition in range(int(partitions))]
            for one, topic_id in (
                (topic, source.topics()[topic].topic_id),
                (name, target.topics()[name].topic_id),
            )
        )
        producer = FlowProducer(target.allocate_producer_id())
        network = stack.enter_context(closing(KafkaNetwork(*configs, request_timeout_s=30.0)))
        work(network, at_source, at_target, producer, int(records))
    time.sleep(DEADLINE_S)


def copied(
    network: KafkaNetwork,
    sources: Sequence[TopicPartition],
    targets: Sequence[TopicPartition],
    producer: FlowProducer,
    records: int,
) -> None:
    """By one task, up to the ends of now; records are in turn over the partitions."""
    assignments = [
        Assignment(
            source=source,
            target=target,
            position=copied_up_to(0),
            producer=producer,
            end_offset=len(range(source.partition, records, len(sources))),
            exclusive=True,
        )
        for source, target in zip(sources, targets, strict=True)
    ]
    CopyTask(assignments, network, writers(), SystemClock(), CopyLimits()).run(seconds=DEADLINE_S)


def appended(
    network: KafkaNetwork,
    sources: Sequence[TopicPartition],
    targets: Sequence[TopicPartition],
    producer: FlowProducer,
    records: int,
) -> None:
    """The largest batch of those that come first, again and again, as many requests at once as a task has, without a
    sequence."""
    limits = CopyLimits()
    network.source.refresh([sources[0].topic])
    network.target.refresh([targets[0].topic])
    from_node, node = network.source.leader(sources[0]), network.target.leader(targets[0])
    assert from_node is not None
    assert node is not None
    items = [FetchItem(sources[0], 0, limits.partition_fetch_bytes)]
    read = network.source.fetch(
        from_node, items, committed=False, max_wait_ms=500, max_bytes=limits.fetch_bytes
    )
    [fetched] = answer_to(read, network).fetched
    assert fetched is not None
    header, largest = max(batches(fetched.records), key=lambda found: found[0].size)
    batch = memoryview(bytearray(largest))
    patch_for_target(batch, header.attributes, producer_id=-1, sequence=-1)
    at_once = max(1, min(len(targets), limits.produce_request_bytes // len(batch)))
    turns = cycle(
        [ProduceItem(target, batch) for target in targets[first : first + at_once]]
        for first in range(0, len(targets), at_once)
    )
    sent, waiting = 0, 0
    while waiting or sent < records:
        while sent < records and waiting < network.target.produce_window(node):
            turn = next(turns)
            network.target.produce(node, turn, timeout_ms=30_000)
            sent, waiting = sent + len(turn) * header.count, waiting + 1
        for answer in network.poll(1.0):
            assert all(part is not None and part.error == 0 for part in answer.produced), answer
            waiting -= 1


# Figures that documents show --------------------------------------------------------------------------


def keep(results: Sequence[Result]) -> None:
    """Figures of other cases stay."""
    kept.keep(KEPT, [asdict(one) for one in results], "case", TUNED)


def drawn() -> str:
    """Records a second of the cases that both mirrors were measured with, as SVG."""
    found = kept_results()
    cases = [case for case in CASES if {(case.name, OURS), (case.name, THEIRS)} <= found.keys()]
    rates = {mirror: [found[case.name, mirror].rate for case in cases] for mirror in (OURS, THEIRS)}
    return bars("Records a second", [case.words for case in cases], rates, by_powers=True)


def kept_results() -> dict[tuple[str, str], Result]:
    """By case and mirror."""
    fields = [{name: one[name] for name in Result.__annotations__} for one in kept.kept(KEPT)]
    found = [
        Result(**{**one, "rates": tuple(one["rates"]), "second_rates": tuple(one["second_rates"])})
        for one in fields
    ]
    return {(one.case, one.mirror): one for one in found}


if __name__ == "__main__":
    main()
