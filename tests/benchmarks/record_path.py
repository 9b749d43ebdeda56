"""What batches cost that cannot go as the bytes they are: records a second and core, from a fetched to a sent batch.

    python -m tests.benchmarks.record_path [--seconds 0.5]

Nothing is asked of a broker: batches of 16 KiB, as producers make them, are planned and made the mirror's own, as a
copy task does with them, again and again in one thread. `raw` is what goes as it is, for comparison. The rest: a source
with LogAppendTime, whose records were sent within 40 ms and within 400 ms; a topic from which a cleaner has removed
each tenth record; filters by keys and by headers that leave out each tenth record.
"""

import argparse
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ledger.kafka.batches import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    Record,
    build,
    encode,
    patch_for_target,
    read_header,
)
from ledger.kafka.codecs import LZ4, NONE, ZSTD
from ledger.kafka.requests import Fetched
from ledger.mirror.source import RecordRules, plan_batches
from ledger.mirror.steps import Copy
from ledger.topics.naming import KEEP_ALL, RecordFilter
from tests.simulation.kafka.stored_batches import content

BATCH_BYTES = 16_384
SIZES = (100, 1_024)
CODECS = {"none": NONE, "lz4": LZ4, "zstd": ZSTD}
NOW_MS = 1_700_000_000_000
TENTH = 10


@dataclass(frozen=True)
class Case:
    """Batches whose records were sent within so long; `attributes` beside the codec."""

    within_ms: int = 40
    attributes: int = 0
    is_cleaned: bool = False
    record_filter: RecordFilter = KEEP_ALL


CASES: Mapping[str, Case] = {
    "raw": Case(),
    "LogAppendTime": Case(attributes=LOG_APPEND_TIME),
    "LogAppendTime, 400 ms": Case(within_ms=400, attributes=LOG_APPEND_TIME),
    "cleaned": Case(is_cleaned=True),
    "filter by key": Case(record_filter=RecordFilter(exclude_keys=("customer-.*0",))),
    "filter by header": Case(record_filter=RecordFilter(exclude_headers=(("origin", "test"),))),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.5, help="of CPU for each figure")
    options = parser.parse_args()
    print("million records a second and core, from a fetched batch to a sent one")
    print(f"{'':24}" + "".join(f"{f'{size} B {codec}':>14}" for size in SIZES for codec in CODECS))
    for name, case in CASES.items():
        found = [rate(case, size, codec, options.seconds) for size in SIZES for codec in CODECS.values()]
        print(f"{name:24}" + "".join(f"{each / 1e6:14.2f}" for each in found), flush=True)


def rate(case: Case, size: int, codec: int, seconds: float) -> float:
    batch = stored(case, size, codec)
    count = read_header(memoryview(batch)).count
    rules = RecordRules(lambda _producer_id: False, record_filter=case.record_filter)

    def copy() -> None:
        fetched = Fetched("orders", 0, 0, 1 << 40, 1 << 40, 0, (), memoryview(bytearray(batch)), None)
        for step in plan_batches(fetched, position=0, end_offset=None, rules=rules):
            assert isinstance(step, Copy)
            patch_for_target(step.batch, step.attributes, producer_id=7, sequence=0)

    return count / min(cpu_of(copy, seconds / TENTH) for _ in range(TENTH))


def cpu_of(act: Callable[[], None], seconds: float) -> float:
    """Seconds of CPU that it takes once."""
    times, began = 0, time.process_time()
    while (took := time.process_time() - began) < seconds:
        act()
        times += 1
    return took / times


def stored(case: Case, size: int, codec: int) -> bytes:
    """A batch as a broker has it; values are text, and compress to about a half."""
    chance = random.Random(1)
    count = BATCH_BYTES // size
    records = []
    for number in range(count):
        key = b"customer-%d" % (number if number % TENTH else number * TENTH)
        headers = [("trace", b"%016x" % chance.getrandbits(64))]
        headers += [] if number % TENTH else [("origin", b"test")]
        text = b"%x" % chance.getrandbits(8 * size)
        value = text[: max(size - len(content(key, b"", headers)), 1)]
        if not (case.is_cleaned and number and number % TENTH == 0):
            at_ms = NOW_MS + number * case.within_ms // count
            records.append(Record(number, at_ms, 0, content(key, value, headers)))
    made = encode(records, codec=codec, with_offsets=True)
    header = read_header(memoryview(made))
    return bytes(
        build(
            attributes=codec | case.attributes,
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp + 3,
            count=header.count,
            payload=bytes(made[HEADER_BYTES:]),
            last_offset_delta=header.last_offset_delta,
        )
    )


if __name__ == "__main__":
    main()
