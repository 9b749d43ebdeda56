"""What happens to logs and records: deletion, cleaning, transactions, limits of the target, codecs, size."""

import time
from contextlib import closing

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ledger.clock import SystemClock
from ledger.facts.syncs import GapCause, SyncCause
from ledger.kafka.copying import Completion
from ledger.kafka.network import KafkaNetwork
from ledger.mirror.assignment import CopyLimits, PartitionResult
from ledger.mirror.stops import loss_cause
from ledger.mirror.task import CopyTask
from ledger.sandbox.log_gaps import CLEANED_QUICKLY, configure, wait_until_cleaned
from ledger.sandbox.reading import read_topics
from tests.support.copies import CODECS, Pair, landings, limits
from tests.support.copy_tasks import writers
from tests.support.quotas import limit_producing
from tests.support.waiting import eventually

NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000


def cause(result: PartitionResult) -> str | None:
    return None if result.stop is None else str(result.stop.cause)


def delete_before(pair: Pair, offset: int) -> None:
    client = AdminClient({"bootstrap.servers": pair.near["source"]})
    at = TopicPartition(pair.topics["source"], 0, offset)
    client.delete_records([at])[at].result(30)


@pytest.mark.fault(13)
def test_deleted_records_stop_the_partition_and_no_other(near_copy: Pair) -> None:
    configure(
        near_copy.near["source"], near_copy.topics["source"], {"retention.ms": "-1", "retention.bytes": "-1"}
    )
    near_copy.produce(100)
    near_copy.run()
    near_copy.produce(100, start=100)
    delete_before(near_copy, 70)
    deleted, other = near_copy.run(seconds=10)
    assert (cause(deleted), deleted.position.source_offset) == ("source_out_of_range", 50)
    assert (cause(other), other.position.source_offset) == (None, 100)
    settings = near_copy.admins["source"].configurations([near_copy.topics["source"]])
    assert loss_cause(settings[near_copy.topics["source"]]) is SyncCause.DELETED_RECORDS


@pytest.mark.fault(12)
def test_retention_that_overtakes_stops_the_partition(near_copy: Pair) -> None:
    """Real retention: old segments are deleted while nothing is copied."""
    topic = near_copy.topics["source"]
    configure(near_copy.near["source"], topic, {"segment.bytes": "1048576", "retention.bytes": "1048576"})
    near_copy.produce(20)
    near_copy.run()
    near_copy.produce(6_000, start=20, size=1_000)
    admin = near_copy.admins["source"]
    eventually(lambda: admin.ends([(topic, 0)])[topic, 0].log_start > 10, "retention has deleted")
    overtaken, _ = near_copy.run(seconds=20)
    assert (cause(overtaken), overtaken.position.source_offset) == ("source_out_of_range", 10)
    assert loss_cause(admin.configurations([topic])[topic]) is SyncCause.RETENTION


@pytest.mark.fault(19)
@pytest.mark.parametrize("near_copy", [CLEANED_QUICKLY], indirect=True, ids=["compacted"])
def test_a_cleaner_at_work_leaves_gaps_and_no_wrong_pairs(near_copy: Pair) -> None:
    topic, servers = near_copy.topics["source"], near_copy.near["source"]
    producer = Producer({"bootstrap.servers": servers, "batch.num.messages": 50})
    for number in range(6_000):
        at = NOW_MS - HOUR_MS + number
        key = (
            number if number % 10 < 2 else number % 100
        )  # a fifth of all records are the only ones of their key
        producer.produce(topic, b"%d" % number, b"%d" % key, number % 2, timestamp=at)
    assert producer.flush(30) == 0
    near_copy.run(
        seconds=0.02, to_the_end=False, limits=limits(partition_fetch_bytes=5_000, fetch_bytes=10_000)
    )
    first = sum(result.position.source_offset for result in near_copy.standing.values())
    wait_until_cleaned(servers, topic)
    results = near_copy.run()
    assert first < 6_000
    assert [cause(result) for result in results] == [None, None]
    assert any(gap.cause is GapCause.COMPACTED for sync in near_copy.syncs for gap in sync.gaps)
    source, target = (
        read_topics(servers, [topic]),
        read_topics(near_copy.near["target"], [near_copy.topics["target"]]),
    )
    for partition in range(2):
        landed = {
            s: t for sync in near_copy.syncs if sync.source.partition == partition for s, t in landings(sync)
        }
        copied = {placed.offset: placed.record for placed in target[near_copy.topics["target"], partition]}
        left = source[topic, partition]
        assert len(left) < 3_000
        assert [copied[landed[placed.offset]] for placed in left] == [placed.record for placed in left]
        assert sorted(landed.values()) == sorted(copied), "every target record has its source offset"


class Transactions:
    """One transactional producer; `send` leaves the transaction open until `end`."""

    def __init__(self, pair: Pair, name: str) -> None:
        self.topic = pair.topics["source"]
        settings = {"bootstrap.servers": pair.near["source"], "transactional.id": f"{self.topic}-{name}"}
        self.producer = Producer({**settings, "linger.ms": 0})
        self.producer.init_transactions(30)
        self.is_open = False

    def send(self, *values: str) -> None:
        if not self.is_open:
            self.producer.begin_transaction()
            self.is_open = True
        for value in values:
            self.producer.produce(self.topic, value.encode(), partition=0)
        assert self.producer.flush(30) == 0

    def end(self, *, commit: bool) -> None:
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)(30)
        self.is_open = False


@pytest.fixture
def producers(near_copy: Pair) -> tuple[Transactions, Transactions]:
    return Transactions(near_copy, "ada"), Transactions(near_copy, "bob")


@pytest.mark.fault(20)
def test_aborted_records_are_left_out_within_and_across_rounds(
    near_copy: Pair, producers: tuple[Transactions, Transactions]
) -> None:
    ada, bob = producers
    for number in range(6):  # several ends in one fetch response, and ranges that overlap
        ada.send(f"a{number}", f"a{number}'")
        bob.send(f"b{number}")
        ada.end(commit=number % 2 == 0)
        bob.send(f"b{number}'")
        bob.end(commit=number % 3 == 0)
    near_copy.run()
    ada.send("kept?", "no")
    bob.send("yes")
    bob.end(commit=True)
    near_copy.run(seconds=1, to_the_end=False)
    ada.send("neither")
    near_copy.run(seconds=1, to_the_end=False)
    ada.end(commit=False)
    ada.send("end")
    ada.end(commit=True)
    eventually(lambda: _is_stable(near_copy), "all transactions have ended")
    near_copy.run()
    assert near_copy.assert_same() == 6 + 4 + 2
    causes = {gap.cause for sync in near_copy.syncs for gap in sync.gaps}
    assert causes == {GapCause.CONTROL, GapCause.ABORTED}


def _is_stable(pair: Pair, side: str = "source") -> bool:
    at = (pair.topics[side], 0)
    ends = pair.admins[side].ends([at])[at]
    return ends.last_stable == ends.high_watermark


@pytest.mark.fault(21, 22)
def test_an_open_transaction_holds_the_copy_at_the_last_stable_offset(
    near_copy: Pair, producers: tuple[Transactions, Transactions]
) -> None:
    ada, bob = producers
    bob.send("before")
    bob.end(commit=True)
    eventually(lambda: _is_stable(near_copy), "the marker is written")
    ada.send("open")
    bob.send("behind")
    bob.end(commit=True)
    held, _ = near_copy.run(seconds=1, to_the_end=False)
    at = (near_copy.topics["source"], 0)
    ends = near_copy.admins["source"].ends([at])[at]
    assert held.position.source_offset == ends.last_stable == 2 < ends.high_watermark
    assert (held.stop, held.trouble) == (None, None)
    assert _is_stable(near_copy, "target"), "no transaction is open at the target"
    assert ends.high_watermark - ends.last_stable == 3
    ada.end(commit=True)
    eventually(lambda: _is_stable(near_copy), "the transaction has ended")
    near_copy.run()
    assert near_copy.assert_same() == 3


@pytest.mark.fault(23)
def test_a_record_too_large_for_the_target_stops_its_partition_until_the_limit_is_raised(
    near_copy: Pair,
) -> None:
    configure(near_copy.near["target"], near_copy.topics["target"], {"max.message.bytes": "20000"})
    near_copy.produce(40)
    _write(near_copy, b"x" * 30_000, 0, NOW_MS)
    near_copy.produce(40, start=40)
    refused, other = near_copy.run(seconds=10)
    assert (cause(refused), refused.position.source_offset) == ("refused", 20)
    assert "10 (MESSAGE_TOO_LARGE)" in str(refused.stop)
    assert (cause(other), other.position.source_offset) == (None, 40)
    configure(near_copy.near["target"], near_copy.topics["target"], {"max.message.bytes": "1000000"})
    near_copy.run()
    assert near_copy.assert_same() == 81


@pytest.mark.fault(24)
@pytest.mark.parametrize(
    ("setting", "timestamp_ms"),
    [
        ("message.timestamp.before.max.ms", NOW_MS - 48 * HOUR_MS),
        ("message.timestamp.after.max.ms", NOW_MS + 2 * HOUR_MS),
    ],
    ids=["too-old", "too-new"],
)
def test_a_refused_timestamp_stops_its_partition_until_it_is_allowed(
    near_copy: Pair, setting: str, timestamp_ms: int
) -> None:
    topics = near_copy.topics
    configure(near_copy.near["source"], topics["source"], {setting: str(1000 * HOUR_MS)})
    configure(near_copy.near["target"], topics["target"], {setting: str(HOUR_MS)})
    near_copy.produce(40)
    _write(near_copy, b"odd", 0, timestamp_ms)
    near_copy.produce(40, start=40)
    refused, other = near_copy.run(seconds=10)
    assert (cause(refused), refused.position.source_offset) == ("refused", 20)
    assert "32 (INVALID_TIMESTAMP)" in str(refused.stop)
    assert "20" in str(refused.stop), "the message names the offset"
    assert (cause(other), other.position.source_offset) == (None, 40)
    configure(near_copy.near["target"], topics["target"], {setting: str(1000 * HOUR_MS)})
    near_copy.run()
    assert near_copy.assert_same() == 81


def _write(pair: Pair, value: bytes, partition: int, timestamp_ms: int, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": pair.near["source"], **settings})
    producer.produce(pair.topics["source"], value, partition=partition, timestamp=timestamp_ms)
    assert producer.flush(30) == 0


@pytest.mark.fault(25)
def test_a_target_that_throttles_slows_the_copy_down_and_stops_nothing(near_copy: Pair) -> None:
    servers = near_copy.near["target"]
    limit_producing(servers, "mirror-ledger", 60_000)
    try:
        near_copy.produce(4_000, size=500, client={"batch.num.messages": 20})
        started = time.monotonic()
        results = near_copy.run(seconds=3, to_the_end=False, limits=limits(request_timeout_ms=5_000))
        slow_s = time.monotonic() - started
        held = sum(result.position.source_offset for result in results)
        assert [cause(result) for result in results] == [None, None]
        assert "the target throttles this client by a quota" in {result.trouble for result in results}
        assert 0 < held < 4_000, "the quota has no effect"
        limit_producing(servers, "mirror-ledger", None)
        near_copy.run(seconds=40)
    finally:
        limit_producing(servers, "mirror-ledger", None)
    assert slow_s < 20
    assert near_copy.assert_same() == 4_000


@pytest.mark.fault(26)
def test_every_codec_is_copied_as_it_is(near_copy: Pair) -> None:
    for number, codec in enumerate(CODECS):
        near_copy.produce(200, start=200 * number, client={"compression.type": codec})
    near_copy.run()
    assert near_copy.assert_same() == 200 * len(CODECS)
    assert sum(sync.record_path_batches for sync in near_copy.syncs) == 0
    assert near_copy.codecs("source") == near_copy.codecs("target") == set(CODECS)


@pytest.mark.fault(26, 30)
def test_a_target_that_recompresses_is_paired_by_its_records(near_copy: Pair) -> None:
    configure(near_copy.near["target"], near_copy.topics["target"], {"compression.type": "zstd"})
    near_copy.produce(500, client={"compression.type": "lz4"})
    near_copy.run()
    for partition in (0, 1):
        near_copy.forget(partition)
    near_copy.run()
    assert all(sync.recovered for sync in near_copy.syncs)
    assert near_copy.codecs("target") == {"zstd"}
    assert near_copy.assert_same() == 500


@pytest.mark.fault(26, 39)
def test_huge_records_are_copied_within_the_bounds(near_copy: Pair) -> None:
    largest = 8 * 1024 * 1024
    for side in ("source", "target"):
        configure(near_copy.near[side], near_copy.topics[side], {"max.message.bytes": str(largest + 1_000)})
    for number in range(6):
        _write(
            near_copy, bytes([number]) * largest, number % 2, NOW_MS, **{"message.max.bytes": largest + 2_000}
        )
    bounded = limits(
        partition_fetch_bytes=1_000_000,
        fetch_bytes=2_000_000,
        buffered_bytes=3_000_000,
        in_flight_bytes=3_000_000,
    )
    with closing(near_copy.network()) as network:
        watched = WatchedTask(near_copy, network, bounded)
        near_copy.take(watched.run())
    assert near_copy.assert_same() == 6
    assert largest < watched.most_buffered < bounded.buffered_bytes + 2 * (largest + 1_000)


class WatchedTask:
    """A task that notes the most that it held in memory: fetched and not yet sent."""

    def __init__(self, pair: Pair, network: KafkaNetwork, bounded: CopyLimits) -> None:
        self._network, self.most_buffered = network, 0
        self.source, self.target = network.source, network.target
        self._task = CopyTask(
            pair.assignments(end_offset=pair.ends()), self, writers(), SystemClock(), bounded
        )

    def run(self) -> list[PartitionResult]:
        return self._task.run(seconds=30)

    def poll(self, timeout_s: float) -> list[Completion]:
        completions = self._network.poll(timeout_s)
        fetched = sum(len(found.records) for done in completions for found in done.fetched if found)
        held = fetched + sum(copy.window.planned_bytes for copy in self._task._copies)
        self.most_buffered = max(self.most_buffered, held)
        return completions
