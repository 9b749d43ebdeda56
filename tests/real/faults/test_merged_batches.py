"""Producers that send record by record: their small batches are merged on the way, and nothing else changes."""

import time
from collections.abc import Sequence
from contextlib import closing

import pytest
from confluent_kafka import Producer

from ledger.clock import SystemClock
from ledger.kafka.batches import BatchHeader, decode
from ledger.mirror.task import CopyTask
from ledger.sandbox.log_gaps import configure
from tests.support.copies import Pair, landings, limits
from tests.support.copy_tasks import writers
from tests.support.forwarder import Forwarder

ALONE = {"linger.ms": 0, "batch.num.messages": 1}
"""Settings of a producer that puts each record into a batch of its own."""


def write_alone(pair: Pair, count: int, *, transactional: bool = False) -> None:
    """Records of every kind, one in a batch: without key, value or headers, with several, at times that go back."""
    settings = {"transactional.id": pair.topics["source"]} if transactional else {}
    producer = Producer({"bootstrap.servers": pair.near["source"], **ALONE, **settings})
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    now_ms = int(time.time() * 1000)
    for n in range(count):
        headers: list[tuple[str, str | bytes | None]] = [
            ("n", str(n).encode()),
            ("n", None),
            ("", b"\x00" * (n % 200)),
        ]
        producer.produce(
            pair.topics["source"],
            None if n % 7 == 0 else b"v" * (n % 150),
            None if n % 5 == 0 else b"key-%d" % n,
            n % pair.partitions,
            headers=headers[: n % 4],
            timestamp=now_ms + (n * 37) % 500,
        )
        producer.poll(0)
    if transactional:
        producer.commit_transaction(30)
    assert producer.flush(60) == 0


def merged_at_target(pair: Pair) -> list[list[int]]:
    """Of each batch at the target, source offsets of its records, as the offset syncs have them."""
    found = []
    for partition in range(pair.partitions):
        syncs = [sync for sync in pair.syncs if sync.source.partition == partition]
        source_of = {target: source for sync in syncs for source, target in landings(sync)}
        for header, _ in pair.stored("target", partition):
            found.append([source_of[offset] for offset in range(header.base_offset, header.end_offset)])
    return found


def counts(stored: Sequence[tuple[BatchHeader, memoryview]]) -> list[int]:
    return [header.count for header, _ in stored]


def test_records_sent_one_by_one_are_merged_and_stay_what_they_were(near_copy: Pair) -> None:
    write_alone(near_copy, 3_000)
    assert set(counts(near_copy.stored("source"))) == {1}, "each was sent alone"
    near_copy.run()
    assert near_copy.assert_same() == 3_000
    for partition in (0, 1):
        (wanted, found) = (
            [
                (record.timestamp, record.attributes, record.content)
                for header, batch in near_copy.stored(side, partition)
                for record in decode(header, batch)
            ]
            for side in ("source", "target")
        )
        assert len(wanted) > 1_000, "as many as one answer holds"
        assert found[: len(wanted)] == wanted, "keys, values, headers and times byte for byte"
        assert len(counts(near_copy.stored("target", partition))) < 1_500 / 10
    assert sum(sync.merged_batches or 0 for sync in near_copy.syncs) > 2_900


def test_what_was_merged_and_not_recorded_is_recognised(near_copy: Pair) -> None:
    write_alone(near_copy, 2_000)
    near_copy.run()
    syncs = [(sync.source_start, sync.source_end, sync.target_start) for sync in near_copy.syncs]
    ends = near_copy.ends("target")
    for partition in (0, 1):
        near_copy.forget(partition)
    near_copy.run(limits=limits(merged_bytes=3_000))
    assert all(sync.recovered for sync in near_copy.syncs)
    assert [(sync.source_start, sync.source_end, sync.target_start) for sync in near_copy.syncs] == syncs
    assert near_copy.ends("target") == ends, "nothing was written again"
    assert near_copy.assert_same() == 2_000


def test_a_merged_tail_that_reaches_behind_the_end_of_a_task_is_read_whole(near_copy: Pair) -> None:
    """The task before had no end, and died; this one is to go to an offset that lies inside of a merged batch."""
    write_alone(near_copy, 400)
    near_copy.run()
    near_copy.forget(0)
    whole = counts(near_copy.stored("target"))[0]
    assert whole > 10
    assignments = near_copy.assignments(end_offset={0: whole - 3, 1: 200})
    with closing(near_copy.network()) as network:
        task = CopyTask(assignments[:1], network, writers(), SystemClock(), limits())
        results = near_copy.take(task.run(seconds=20))
    assert [result.stop for result in results] == [None]
    assert results[0].position.source_offset == whole
    assert all(sync.recovered for sync in results[0].syncs)
    near_copy.run()
    assert near_copy.assert_same() == 400


def test_nothing_is_merged_across_a_transaction_or_what_a_cleaner_left(near_copy: Pair) -> None:
    for _ in range(3):
        write_alone(near_copy, 40)
        write_alone(near_copy, 40, transactional=True)
    near_copy.run()
    assert near_copy.assert_same() == 240
    transactional = {
        offset
        for header, _ in near_copy.stored("source")
        if header.is_transactional
        for offset in range(header.base_offset, header.end_offset)
    }
    for offsets in merged_at_target(near_copy)[: len(counts(near_copy.stored("target")))]:
        assert offsets == list(range(offsets[0], offsets[-1] + 1)), "no gap inside"
        assert len(offsets) == 1 or not transactional.intersection(offsets)
    assert max(map(len, merged_at_target(near_copy))) > 5


def test_where_the_target_takes_no_large_batch_it_gets_smaller_ones(near_copy: Pair) -> None:
    configure(near_copy.near["target"], near_copy.topics["target"], {"max.message.bytes": "1200"})
    write_alone(near_copy, 600)
    results = near_copy.run()
    assert [(result.stop, result.cut) for result in results] == [(None, None)] * 2
    assert near_copy.assert_same() == 600
    sizes = [header.size for header, _ in near_copy.stored("target")]
    assert max(sizes) <= 1_200
    assert len(sizes) < 300 / 2


@pytest.mark.fault(28)
def test_lost_answers_to_merged_batches_are_made_up_for(far_copy: Pair, lines: dict[str, Forwarder]) -> None:
    """The broker takes merged batches whose answers nobody sees; nothing is doubled or missing."""
    line = lines["target"]
    line.slow(round_trip_s=0.05)
    with closing(far_copy.network()) as network:
        write_alone(far_copy, 200)
        far_copy.run(network=network)
        write_alone(far_copy, 4_000)
        line.lose_answers(after_bytes=30_000, for_s=0.5)
        far_copy.run(network=network)
    assert line.has_lost_answers
    assert far_copy.assert_same() == 4_200
    assert any(sync.recovered and sync.merged_batches for sync in far_copy.syncs)
