"""What a copy task holds in memory, against the bounds that it was given, on real brokers.

    python -m tests.benchmarks.task_memory [--megabytes 600]

Each case is a process of its own that copies everything by one task, so that its peak is the task's: a few
partitions, a thousand of them, large records, and a thousand partitions whose target holds all of it already
but the ledger none (the tail of every one of them has to be read and paired), or whose target was written to
before. The last tells the copy from what a broker does once for a partition: it makes the first pages of two
index files, which some file systems take long for. Peak is beyond what the process had before the task began.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import TopicPartition
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import PartitionEnds
from ledger.kafka.network import KafkaNetwork
from ledger.mirror.assignment import Assignment, CopyLimits
from ledger.mirror.task import CopyTask
from ledger.sandbox import Sandbox, SandboxCluster
from ledger.store.producers import no_mirror_producers
from tests.benchmarks.mirror_speed import DEADLINE_S, fill
from tests.support.copy_tasks import BOTH_SEEN, copied_up_to

LARGE_BYTES = 8_000_000
LIMITS = CopyLimits()
CASES = {"few partitions": (4, 1_000), "1,000 partitions": (1_000, 1_000), "large records": (4, LARGE_BYTES)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=600)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(measure(**json.loads(options.task))))
        return
    bound_mb = (2 * LIMITS.buffered_bytes + LIMITS.in_flight_bytes + 2 * LIMITS.fetch_bytes) / 1e6
    print(f"bound by the limits: {bound_mb:.0f} MB and a batch for each of source and target")
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder) / "sandbox")
        try:
            compare(sandbox.up(["east", "west"], 1), options.megabytes)
        finally:
            sandbox.down()


def compare(pair: Mapping[str, SandboxCluster], megabytes: int) -> None:
    for name, (partitions, size) in CASES.items():
        topic = name.replace(" ", "-").replace(",", "")
        ids = {alias: created(alias, cluster, topic, partitions) for alias, cluster in pair.items()}
        fill(pair["east"].bootstrap_servers, topic, size, megabytes * 1_000_000 // size, partitions)
        servers = {alias: cluster.bootstrap_servers for alias, cluster in pair.items()}
        told = {"servers": servers, "topic": topic, "ids": ids, "partitions": partitions, "producer_id": 1}
        report(name, run_task({**told, "positions": [0] * partitions}))
        if partitions == max(count for count, _ in CASES.values()):
            report(f"{name}, found again", run_task({**told, "positions": [0] * partitions}))
            copied = [end.high_watermark for end in ends_of(servers["west"], topic, partitions)]
            fill(servers["east"], topic, size, megabytes * 1_000_000 // size, partitions)
            report(f"{name}, written before", run_task({**told, "positions": copied}))


def created(alias: str, cluster: SandboxCluster, topic: str, partitions: int) -> str:
    admin = KafkaAdmin(alias, config_of(alias, cluster.bootstrap_servers), SystemClock())
    try:
        limit = {"max.message.bytes": str(2 * LARGE_BYTES)}
        admin.create_topic(topic, partitions=partitions, replication_factor=1, configuration=limit)
        return admin.topics()[topic].topic_id
    finally:
        admin.close()


def ends_of(servers: str, topic: str, partitions: int) -> list[PartitionEnds]:
    """By partition."""
    admin = KafkaAdmin("cluster", config_of("cluster", servers), SystemClock())
    try:
        ends = admin.ends([(topic, partition) for partition in range(partitions)])
        return [ends[(topic, partition)] for partition in range(partitions)]
    finally:
        admin.close()


def config_of(alias: str, servers: str) -> ClusterConfig:
    return ClusterConfig(name=alias, bootstrap_servers=servers)


def run_task(told: Mapping[str, object]) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.task_memory", "--task", json.dumps(told)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(
    *,
    servers: Mapping[str, str],
    topic: str,
    ids: Mapping[str, str],
    partitions: int,
    producer_id: int,
    positions: Sequence[int],
) -> dict[str, float]:
    """Copy everything by one task; megabytes beyond what the process had before, seconds, records.

    `positions`: what the ledger says of each partition, on both sides alike.
    """
    source, target = (config_of(alias, servers[alias]) for alias in ("east", "west"))
    ends = ends_of(servers["east"], topic, partitions)
    assignments = [
        Assignment(
            source=TopicPartition(topic, ids["east"], partition),
            target=TopicPartition(topic, ids["west"], partition),
            position=copied_up_to(positions[partition]),
            tail=BOTH_SEEN,
            producer=FlowProducer(producer_id),
            end_offset=ends[partition].high_watermark,
            exclusive=True,
        )
        for partition in range(partitions)
    ]
    network = KafkaNetwork(source, target, request_timeout_s=30.0)
    before_mb, started = memory_mb("VmRSS"), time.monotonic()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    task = CopyTask(assignments, network, no_mirror_producers(), SystemClock(), LIMITS)
    results = task.run(seconds=DEADLINE_S)
    seconds = time.monotonic() - started
    network.close()
    unreached = [
        result for result in results if result.position.source_offset < (result.assignment.end_offset or 0)
    ]
    if unreached:
        raise SystemExit(f"{len(unreached)} partitions did not get to their end: {unreached[0]}")
    syncs = [sync for result in results for sync in result.syncs]
    return {
        "peak_mb": memory_mb("VmHWM") - before_mb,
        "seconds": seconds,
        "records": sum(sync.records for sync in syncs),
        "recovered": sum(sync.records for sync in syncs if sync.recovered),
    }


def memory_mb(field: str) -> float:
    """A figure of this process as the kernel has it; proc(5)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith(f"{field}:"))
    return int(kilobytes) * 1024 / 1e6


def report(name: str, found: Mapping[str, float]) -> None:
    print(
        f"{name:32} peak {found['peak_mb']:6.0f} MB, {found['records']:10,.0f} records "
        f"({found['recovered']:,.0f} recovered) in {found['seconds']:5.1f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
