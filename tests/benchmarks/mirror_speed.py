"""How fast a whole mirror job copies, beside MirrorMaker 2 on the same brokers, in one run.

    python -m tests.benchmarks.mirror_speed [--megabytes 400] [--repeat 3] [--log-append-time]
        [--round-trip-ms 50] [--batch-records 2]

Both mirrors copy the same records from `east` to `west`, in turn, each into a topic of its own. What is timed
is the target: from the first record seen there to the last, and from the start of the process to the last.
CPU is of the mirror's processes alone (the driver, its JVM and its workers). Loopback, one broker a cluster,
replication factor 1. With `--log-append-time` the source stamps its own times, so that batches take the record path.
With `--round-trip-ms` the source is at the other end of a line; with `--batch-records` its batches have at most so many
records, as of producers that wait for no others.
"""

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import Sandbox
from ledger.sandbox.workload import create_topics
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.drivers import ended_afterwards
from tests.support.following import admin_of
from tests.support.forwarder import forwarding
from tests.support.mirror_maker import mirror_maker
from tests.support.runs import FLOW

PARTITIONS = 4
SIZES = (100, 1024)
DEADLINE_S = 300.0
POLL_S = 0.02
SHORTEST_S = 10 * POLL_S
"""Less is not measured: between two looks at the target all of it may have come."""


@dataclass(frozen=True)
class Figures:
    """One run of one mirror."""

    copying_s: float
    whole_s: float
    cpu_s: float


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=at_least_one, default=400)
    parser.add_argument("--repeat", type=at_least_one, default=3)
    parser.add_argument("--log-append-time", action="store_true", help="of the source's topics")
    parser.add_argument("--round-trip-ms", type=int, default=0, help="between the mirror and the source")
    parser.add_argument("--batch-records", type=at_least_one, help="at most in a batch of the source")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sandbox = Sandbox(folder / "sandbox")
        stack.callback(sandbox.down)
        servers = servers_of(pair := sandbox.up(["east", "west"], 1, far=["east"]))
        mirrored = dict(servers)
        if options.round_trip_ms:
            (broker,) = pair["east"].brokers
            assert broker.far is not None
            line = stack.enter_context(forwarding(broker.far))
            line.slow(round_trip_s=options.round_trip_ms / 1_000)
            mirrored["east"] = line.address
        for size in SIZES:
            compare(servers["east"], mirrored, folder, size, options)


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1 is needed, got {number}")
    return number


def compare(
    source: str, servers: Mapping[str, str], folder: Path, size: int, options: argparse.Namespace
) -> None:
    """`source`: where its records are produced; `servers`: where the mirrors reach both clusters."""
    rows: dict[str, list[Figures]] = {"mirror-ledger": [], "MirrorMaker 2": []}
    records = options.megabytes * 1_000_000 // size
    settings = {"message.timestamp.type": "LogAppendTime"} if options.log_append_time else {}
    for number in range(options.repeat):
        topic = f"bench-{size}-{number}"
        own = folder / topic
        own.mkdir()
        config = write_config(own, servers, {FLOW: f'topics = ["{topic}"]\nprefix = "ours"'})
        init_ledger(config)
        create_topics(source, [topic], partitions=PARTITIONS, configuration=settings)
        fill(source, topic, size, records, PARTITIONS, batch_records=options.batch_records)
        ours = ended_afterwards(
            [sys.executable, "-m", "ledger.cli.main", "--config", config.file, "run", FLOW], own / "ours.log"
        )
        rows["mirror-ledger"].append(timed(ours, config, f"ours.{topic}", records))
        maker = tuned_maker(servers, topic, own)
        rows["MirrorMaker 2"].append(timed(maker, config, f"maker.{topic}", records))
    for name, figures in rows.items():
        report(name, size, records, figures)


def report(name: str, size: int, records: int, figures: list[Figures]) -> None:
    if min(one.copying_s for one in figures) < SHORTEST_S:
        print(
            f"{name:14} {size:5} B x {records:,}: not measured, all records came within {SHORTEST_S:g} s; "
            "--megabytes with a larger number",
            flush=True,
        )
        return
    rates = sorted(records / one.copying_s for one in figures)
    print(
        f"{name:14} {size:5} B x {records:,}: median {statistics.median(rates):12,.0f} records/s "
        f"({rates[0]:,.0f} to {rates[-1]:,.0f}), {statistics.median(rates) * size / 1e6:6.0f} MB/s; "
        f"whole process {statistics.median(one.whole_s for one in figures):5.1f} s; "
        f"CPU {statistics.median(one.cpu_s for one in figures) / records * 1e6:5.2f} s per million records",
        flush=True,
    )


def fill(
    servers: str, topic: str, size: int, records: int, partitions: int, *, batch_records: int | None = None
) -> None:
    """Records of that many random bytes, in turn over the partitions; None: as many in a batch as it takes."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "batch.size": 262_144,
            "queue.buffering.max.kbytes": 524_288,
            "message.max.bytes": 2 * max(size, 1_000_000),
            **({} if batch_records is None else {"batch.num.messages": batch_records}),
        }
    )
    value = os.urandom(size)
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(600) == 0


def timed(mirror: AbstractContextManager[object], config: MirrorConfig, topic: str, records: int) -> Figures:
    """From the start of a mirror's process until all records are in the topic of the target."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    with admin_of(config, "west") as admin, mirror:
        first, last = _watch(admin, topic, records, started)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Figures(last - first, last - started, cpu_s)


def _watch(admin: KafkaAdmin, topic: str, records: int, started: float) -> tuple[float, float]:
    first = None
    partitions = [(topic, partition) for partition in range(PARTITIONS)]
    while time.monotonic() < started + DEADLINE_S:
        copied = 0
        if topic in admin.topics():
            copied = sum(end.high_watermark for end in admin.ends(partitions).values())
        now = time.monotonic()
        first = now if first is None and copied else first
        if copied >= records and first is not None:
            return first, now
        time.sleep(POLL_S)
    raise SystemExit(f"{topic}: {copied} of {records} records after {DEADLINE_S:.0f} s")


def tuned_maker(servers: Mapping[str, str], topic: str, folder: Path) -> AbstractContextManager[None]:
    """With large batches, and no waiting for them."""
    clusters = {"maker": servers["east"], "west": servers["west"]}
    tuned = {
        "tasks.max": "4",
        "emit.checkpoints.enabled": "true",
        "maker.consumer.max.poll.records": "10000",
        "maker.consumer.max.partition.fetch.bytes": "4194304",
        "maker.consumer.fetch.max.bytes": "16777216",
        "west.producer.batch.size": "524288",
        "west.producer.linger.ms": "20",
        "west.producer.buffer.memory": "67108864",
    }
    return mirror_maker(clusters, topic, folder, jvm=("-Xmx1g",), more=tuned)


if __name__ == "__main__":
    main()
