"""What it costs to write to topics by name, as targets before 4.1 are written to, beside writing by id.

`python -m tests.benchmarks.by_name [--times N]`: one copy task between two brokers, in turn by id and by name, of
batches of 64 KiB and of batches of one record; the median of each.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ledger.kafka import network
from ledger.kafka.network import KafkaLink, Node
from ledger.kafka.spoken import PRODUCE, Spoken
from ledger.sandbox import Sandbox
from tests.support.copies import Pair

LARGE = {"linger.ms": 50, "batch.size": 65_536, "queue.buffering.max.kbytes": 1 << 20}
SINGLE = {"linger.ms": 0, "batch.num.messages": 1}
CASES = (
    ("1 partition, batches of 64 KiB", 1, 150_000, 1024, LARGE),
    ("12 partitions, batches of 64 KiB", 12, 150_000, 1024, LARGE),
    ("1 partition, a record of 1 KiB a batch", 1, 10_000, 1024, SINGLE),
    ("12 partitions, a record of 1 KiB a batch", 12, 10_000, 1024, SINGLE),
)


@contextmanager
def produced(*, by_id: bool) -> Iterator[None]:
    """Whether targets are written to by id, whatever they speak."""
    settled = KafkaLink._goes_by_id

    def goes_by_id(link: KafkaLink, node: Node, api: Spoken) -> bool:
        return settled(link, node, api) and (by_id or api is not PRODUCE)

    setattr(network.KafkaLink, "_goes_by_id", goes_by_id)  # noqa: B010
    try:
        yield
    finally:
        setattr(network.KafkaLink, "_goes_by_id", settled)  # noqa: B010


def measured_s(pair: Pair, *, by_id: bool) -> float:
    """How long one task copies all, into an empty target, over connections that are open."""
    pair.replace("target", lambda _: pair.create("target"))
    pair.standing, pair.syncs = {}, []
    pair.producer_id = pair.admins["target"].allocate_producer_id()
    with produced(by_id=by_id), closing(pair.network()) as connections:
        pair.run(network=connections, seconds=0.2, to_the_end=False)
        before = sum(sync.records for sync in pair.syncs)
        started_s = time.perf_counter()
        pair.run(network=connections, seconds=300)
        took_s = time.perf_counter() - started_s
        return took_s / (sum(sync.records for sync in pair.syncs) - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    sandbox = Sandbox(Path(tempfile.mkdtemp(prefix="by-name-")))
    try:
        clusters = sandbox.up(["east", "west"], brokers=1)
        sides = {"source": clusters["east"].bootstrap_servers, "target": clusters["west"].bootstrap_servers}
        for name, partitions, records, size, client in CASES:
            with Pair(sides, sides, partitions=partitions) as pair:
                pair.produce(records, size=size, client=client)
                found: dict[bool, list[float]] = {True: [], False: []}
                for number in range(2 * times):
                    found[number % 2 == 0].append(measured_s(pair, by_id=number % 2 == 0))
                by_id, by_name = (1 / statistics.median(found[way]) for way in (True, False))
                print(
                    f"{name}: by id {by_id:,.0f} records/s, by name {by_name:,.0f} ({by_name / by_id - 1:+.0%})",
                    flush=True,
                )
    finally:
        sandbox.down()


if __name__ == "__main__":
    main()
