"""Small batches are planned together: what that is, batch by batch, is what planning each of them by itself gives."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from ledger.errors import LedgerUnavailableError, MirrorLedgerError
from ledger.kafka.batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Record, decode
from ledger.kafka.codecs import LZ4
from ledger.kafka.requests import Fetched
from ledger.mirror.source import RecordRules, plan_batches, plan_together
from ledger.mirror.steps import Planned, SmallBatches, Step
from ledger.topics.naming import KEEP_ALL, RecordFilter
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import (
    Producer,
    StoredBatch,
    StoredRecord,
    application_batch,
    content,
)
from tests.support.copy_tasks import NOW_MS, Target, answer, assignment, source_log

MIRROR, UNKNOWN = 40, 41
SEEDS = range(150)


def writer(producer_id: int) -> bool:
    if producer_id == UNKNOWN:
        raise LedgerUnavailableError("away")
    return producer_id == MIRROR


def drawn_batch(draw: random.Random, offset: int) -> StoredBatch:
    """Most are small and plain, which is what is planned together; each exception comes now and then."""
    records = draw.choice([1, 2] * 9 + [3, 8, 9])
    times = (
        [-1] * records
        if draw.random() < 0.05
        else [NOW_MS + draw.randrange(-90, 900) for _ in range(records)]
    )
    size = 17_000 if draw.random() < 0.03 else draw.randrange(300)
    batch = application_batch(
        [content(b"k", draw.randbytes(size)) for _ in range(records)],
        times,
        attributes=draw.choice([0] * 60 + [LZ4] * 20 + [LOG_APPEND_TIME, TRANSACTIONAL, 0x40]),
        producer=Producer(
            draw.choice([-1] * 40 + [7, 7, 8, MIRROR] + [UNKNOWN] * (draw.random() < 0.05)), 0, 0
        ),
    )
    if draw.random() < 0.04:
        batch = replace(batch, records=batch.records[:-1], last_offset_delta=records + draw.randrange(2))
    elif draw.random() < 0.02:
        record = StoredRecord(0, NOW_MS, content(b"\0\0\0\1", b"\0\0\0\0\0\0"))
        batch = replace(batch, records=(record,), last_offset_delta=0, attributes=CONTROL | TRANSACTIONAL)
    return replace(batch, base_offset=offset, leader_epoch=draw.choice([3] * 60 + [4]))


def drawn_answer(draw: random.Random) -> tuple[Fetched, int]:
    """And the offset behind it."""
    stored, offset = bytearray(), 0
    for _ in range(draw.randrange(60)):
        offset += draw.choice([0] * 30 + [2])
        batch = drawn_batch(draw, offset)
        encoded = bytearray(batch.encoded())
        if draw.random() < 0.01:
            encoded[draw.randrange(21, len(encoded))] ^= 1 << draw.randrange(8)
        stored += encoded
        offset += batch.last_offset_delta + 1
    cut_off = draw.randrange(200) if draw.random() < 0.3 else 0
    return answer(
        bytes(stored[: max(len(stored) - cut_off, 0)]), aborted=((7, 0),) * (draw.random() < 0.3)
    ), offset


def drawn_rules(draw: random.Random, end: int) -> RecordRules:
    def ranges() -> tuple[tuple[int, int], ...]:
        edges = sorted(draw.sample(range(end + 9), 4))
        return ((edges[0], edges[1]), (edges[2], edges[3])) if draw.random() < 0.2 else ()

    kept = RecordFilter(exclude_keys=("other",)) if draw.random() < 0.1 else KEEP_ALL
    return RecordRules(writer, ranges(), kept, ranges(), ranges())


def singly(steps: Iterator[Planned]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, SmallBatches):
            yield from step.singles()
        else:
            yield step


def outcome(plan: Callable[[], Iterator[Planned]]) -> tuple[list[Step], str]:
    """What was planned, and why no more was."""
    found: list[Step] = []
    try:
        for step in singly(plan()):
            found.append(step)
    except MirrorLedgerError as error:
        return found, str(error)
    return found, ""


@pytest.mark.parametrize("seed", SEEDS)
def test_together_is_what_each_by_itself_is(seed: int) -> None:
    draw = random.Random(seed)
    fetched, end = drawn_answer(draw)
    rules = drawn_rules(draw, end)
    position = draw.randrange(end + 1) if draw.random() < 0.3 else 0
    stop_at = draw.randrange(end + 9) if draw.random() < 0.3 else None
    assert outcome(
        lambda: plan_together(fetched, position=position, end_offset=stop_at, rules=rules, together=True)
    ) == outcome(lambda: plan_batches(fetched, position=position, end_offset=stop_at, rules=rules))


def test_most_of_them_are_planned_together() -> None:
    """The comparison above is of something."""
    counts: list[int] = []
    for seed in SEEDS:
        draw = random.Random(seed)
        fetched, _ = drawn_answer(draw)
        rules = RecordRules(lambda _producer_id: False)
        try:
            steps = list(plan_together(fetched, position=0, end_offset=None, rules=rules, together=True))
        except MirrorLedgerError:
            continue
        counts += [len(step.waiting) if isinstance(step, SmallBatches) else 1 for step in steps]
    assert max(counts) >= 10
    assert sum(count for count in counts if count > 1) > len(counts) / 2


@pytest.mark.parametrize("length", [-12, -61, 0, 48])
def test_a_length_that_no_batch_has_is_no_small_batch(length: int) -> None:
    encoded = bytearray(application_batch([content(b"k", b"v")], [NOW_MS]).encoded())
    encoded[8:12] = length.to_bytes(4, "big", signed=True)
    encoded[17:21] = bytes(4)
    rules = RecordRules(lambda _producer_id: False)
    found = outcome(
        lambda: plan_together(answer(bytes(encoded)), position=0, end_offset=None, rules=rules, together=True)
    )
    assert found[0] == []
    assert found[1]


def records_of(log: PartitionLog) -> list[Record]:
    return [record for header, batch in log.batches() for record in decode(header, memoryview(batch))]


@pytest.mark.parametrize("limit", [300, 2_000, 100_000])
def test_a_backlog_is_copied_in_few_batches_of_the_same_records(limit: int) -> None:
    log = source_log(*[2] * 400)
    target = Target(log, assignment(), merges_up_to=limit)
    target.copy_all()
    assert records_of(target.log) == records_of(log)
    found = target.log.batches()
    assert max(len(batch) for _, batch in found) <= limit
    assert len(found) <= 2 * 400 * 60 // limit + 1
