"""Times of records are any int64: each message tells them, and one that is refused stops its partition alone."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ledger
from ledger.changeover.extras import Measured
from ledger.facts.identity import FlowProducer, RememberedProducer
from ledger.kafka.batches import BatchHeader, build, read_header
from ledger.kafka.requests import ErrorCode
from ledger.mirror import tail
from ledger.mirror.assignment import StopCause
from ledger.mirror.states import ForeignWriters
from ledger.mirror.tail import ForeignRecords
from ledger.terminal import render_table
from ledger.words import instant
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.support.copy_tasks import NOW_MS, OWN_PRODUCER_ID, TARGET, Bench, cause, copy
from tests.support.unasked_cluster import UnaskedCluster

MICROSECONDS = 1_755_933_141_855_875
"""For milliseconds: the year 57,613."""
TIMES = st.integers(-(1 << 63), (1 << 63) - 1)


class Remembering(UnaskedCluster):
    """A leader that remembers the last batch of any producer."""

    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms

    def remembered_producer(self, _partition: object, _producer_id: int) -> RememberedProducer:
        return RememberedProducer(self._at_ms, False, None)


def batch_header(at_ms: int) -> BatchHeader:
    found = read_header(
        memoryview(build(attributes=0, base_timestamp=at_ms, max_timestamp=at_ms, count=1, payload=b""))
    )
    return replace(found, producer_id=17)


def messages(at_ms: int) -> list[str]:
    """What is said of a record with that time."""
    header = batch_header(at_ms)
    foreign = tail.foreign(ForeignRecords.beginning(header), own=OWN_PRODUCER_ID)
    writers = ForeignWriters(
        Remembering(at_ms), lambda: {"f": FlowProducer(OWN_PRODUCER_ID)}, lambda: ("a sign",)
    )
    step = copy(10, 11, timestamp=at_ms)
    answer = pa.table({"last_timestamp_ms": [at_ms], "since_ms": [at_ms]})
    return [
        instant(at_ms),
        "" if at_ms == -1 else foreign.message,
        writers.named(foreign, TARGET).message,
        tail.refused(step, ErrorCode.INVALID_TIMESTAMP, "INVALID_TIMESTAMP").message,
        Measured().with_batch(header, (0, 1)).words,
        render_table(answer),
    ]


@given(TIMES)
@example(-(1 << 63))
@example(-1)
@example(253_402_300_800_000)
@example(MICROSECONDS)
@example((1 << 63) - 1)
def test_each_message_tells_any_time(at_ms: int) -> None:
    is_in_calendar = 0 <= at_ms < 253_402_300_800_000
    for message in filter(None, messages(at_ms)):
        assert (f"{at_ms} ms" in message) != is_in_calendar


def test_there_is_one_way_from_a_number_to_the_calendar() -> None:
    """Others read the clock of this machine, or what somebody has typed."""
    folder = Path(ledger.__file__).parent
    found = {
        str(file.relative_to(folder))
        for file in folder.rglob("*.py")
        if "fromtimestamp(" in file.read_text(encoding="utf-8")
    }
    assert found == {"words.py", "cli/logs.py", "store/log.py", "store/snapshots.py"}


@pytest.mark.parametrize("at_ms", [MICROSECONDS, (1 << 63) - 1, -(1 << 62)])
def test_a_record_of_somebody_else_is_no_failure_of_this_program(at_ms: int) -> None:
    bench = Bench()
    bench.write(3)
    stranger = application_batch([content(b"k", b"v")], [at_ms], producer=Producer(17, 0, 0))
    bench.target_log().append(stranger, now_ms=NOW_MS)
    [result] = bench.run(bench.assignment())
    assert cause(result) is StopCause.FOREIGN_WRITE


def test_a_time_that_the_target_refuses_stops_its_partition_alone() -> None:
    bench = Bench()
    bench.target_log().latest_ms = NOW_MS
    times = [NOW_MS, MICROSECONDS, MICROSECONDS, NOW_MS]
    bench.source_log().append(application_batch([content(b"k", b"v")] * 4, times), now_ms=NOW_MS)
    bench.write(5, partition=1)
    odd, other = bench.run(bench.assignment(), bench.assignment(1))
    assert (cause(other), bench.is_copied(1)) == (None, True)
    assert (cause(odd), bench.target_log().end) == (StopCause.REFUSED, 1), "what lies before it was taken"
    assert odd.stop is not None
    assert "message.timestamp.before.max.ms and .after.max.ms" in odd.stop.message
    assert "skip-to with --offset 2 " in odd.stop.message
    assert odd.cut is None, "no larger max.message.bytes helps it"
