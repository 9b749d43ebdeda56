"""How fast a whole mirror job copies, beside MirrorMaker 2 on the same brokers, in one run.

    python -m tests.benchmarks.mirror_speed [--megabytes 400] [--repeat 3]

Both mirrors copy the same records from `east` to `west`, in turn, each into a topic of its own. What is timed
is the target: from the first record seen there to the last, and from the start of the process to the last.
CPU is of the mirror's processes alone (the driver, its JVM and its workers). Loopback, one broker a cluster,
replication factor 1.
"""

import argparse
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.jvm import check_java
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import Sandbox, SandboxCluster
from ledger.sandbox.brokers import kafka_jars

PARTITIONS = 4
SIZES = (100, 1024)
DEADLINE_S = 300.0
POLL_S = 0.02


@dataclass(frozen=True)
class Figures:
    """One run of one mirror."""

    copying_s: float
    whole_s: float
    cpu_s: float


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder) / "sandbox")
        try:
            pair = sandbox.up(["east", "west"], 1)
            for size in SIZES:
                compare(pair, Path(folder), size, options.megabytes * 1_000_000 // size, options.repeat)
        finally:
            sandbox.down()


def compare(pair: Mapping[str, SandboxCluster], folder: Path, size: int, records: int, repeat: int) -> None:
    rows: dict[str, list[Figures]] = {"mirror-ledger": [], "MirrorMaker 2": []}
    for number in range(repeat):
        topic = f"bench-{size}-{number}"
        admin = KafkaAdmin("east", _cluster(pair, folder, topic).cluster("east"), SystemClock())
        admin.create_topic(topic, partitions=PARTITIONS, replication_factor=1, configuration={})
        admin.close()
        fill(pair["east"].bootstrap_servers, topic, size, records, PARTITIONS)
        rows["mirror-ledger"].append(
            timed(partial(ours, pair, folder, topic), pair, folder, topic, "ours", records)
        )
        rows["MirrorMaker 2"].append(
            timed(partial(maker, pair, folder, topic), pair, folder, topic, "maker", records)
        )
    for name, figures in rows.items():
        report(name, size, records, figures)


def report(name: str, size: int, records: int, figures: list[Figures]) -> None:
    rates = sorted(records / one.copying_s for one in figures)
    print(
        f"{name:14} {size:5} B x {records:,}: median {statistics.median(rates):12,.0f} records/s "
        f"({rates[0]:,.0f} to {rates[-1]:,.0f}), {statistics.median(rates) * size / 1e6:6.0f} MB/s; "
        f"whole process {statistics.median(one.whole_s for one in figures):5.1f} s; "
        f"CPU {statistics.median(one.cpu_s for one in figures) / records * 1e6:5.2f} s per million records",
        flush=True,
    )


def fill(servers: str, topic: str, size: int, records: int, partitions: int) -> None:
    """Records of that many random bytes, in turn over the partitions."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "batch.size": 262_144,
            "queue.buffering.max.kbytes": 524_288,
            "message.max.bytes": 2 * max(size, 1_000_000),
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
    assert producer.flush(60) == 0


def timed(
    start: Callable[[], "subprocess.Popen[bytes]"],
    pair: Mapping[str, SandboxCluster],
    folder: Path,
    topic: str,
    prefix: str,
    records: int,
) -> Figures:
    admin = KafkaAdmin("west", _cluster(pair, folder, topic).cluster("west"), SystemClock())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    process = start()
    try:
        first, last = _watch(admin, f"{prefix}.{topic}", records, started)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
        admin.close()
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


def _cluster(pair: Mapping[str, SandboxCluster], folder: Path, topic: str) -> MirrorConfig:
    file = folder / f"{topic}.toml"
    file.write_text(
        f'[ledger]\npath = "{folder / topic}-ledger"\n'
        f'[clusters.east]\nbootstrap_servers = "{pair["east"].bootstrap_servers}"\n'
        f'[clusters.west]\nbootstrap_servers = "{pair["west"].bootstrap_servers}"\n'
        f'[flows.flow]\nsource = "east"\ntarget = "west"\ntopics = ["{topic}"]\nprefix = "ours"\n'
    )
    return load_config(file)


def ours(pair: Mapping[str, SandboxCluster], folder: Path, topic: str) -> "subprocess.Popen[bytes]":
    init_ledger(_cluster(pair, folder, topic))
    command = [
        sys.executable,
        "-m",
        "ledger.cli.main",
        "--config",
        str(folder / f"{topic}.toml"),
        "run",
        "flow",
    ]
    return _started(command, folder / "ours.log")


def maker(pair: Mapping[str, SandboxCluster], folder: Path, topic: str) -> "subprocess.Popen[bytes]":
    properties = {
        "clusters": "maker,west",
        "maker.bootstrap.servers": pair["east"].bootstrap_servers,
        "west.bootstrap.servers": pair["west"].bootstrap_servers,
        "maker->west.enabled": "true",
        "maker->west.topics": topic,
        "west->maker.enabled": "false",
        "tasks.max": "4",
        "emit.heartbeats.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "dedicated.mode.enable.internal.rest": "false",
        **{f"{name}.replication.factor": "1" for name in MAKER_TOPICS},
        "replication.factor": "1",
        # Tuned: large batches, and no waiting for them.
        "maker.consumer.max.poll.records": "10000",
        "maker.consumer.max.partition.fetch.bytes": "4194304",
        "maker.consumer.fetch.max.bytes": "16777216",
        "west.producer.batch.size": "524288",
        "west.producer.linger.ms": "20",
        "west.producer.buffer.memory": "67108864",
    }
    file = folder / "maker.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    classpath = os.pathsep.join(str(jar) for jar in kafka_jars())
    command = [
        str(check_java()),
        "-Xmx1g",
        "-cp",
        classpath,
        "org.apache.kafka.connect.mirror.MirrorMaker",
        str(file),
    ]
    return _started(command, folder / "maker.log")


MAKER_TOPICS = (
    *("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"),
    *("offset.storage", "status.storage", "config.storage"),
)


def _started(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)


if __name__ == "__main__":
    main()
