"""One partition of a task, step by step: what is sent, what is recognised, what is recorded."""

from dataclasses import replace

import pytest

from ledger.facts.findings import Side
from ledger.facts.syncs import GapCause, TailKnowledge
from ledger.kafka.batches import TRANSACTIONAL
from ledger.kafka.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ledger.mirror.assignment import StopCause
from ledger.mirror.partition import PartitionCopy
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.support.copy_tasks import (
    FOREIGN,
    NODE,
    NOW_MS,
    OWN_PRODUCER_ID,
    Target,
    answer,
    assignment,
    fetched_from,
    source_log,
    writers,
)

OTHER_NODE = 2


def test_everything_is_sent_in_order_and_recorded_once_acknowledged() -> None:
    target = Target(source_log(2, 3), assignment())
    target.copy_all()
    assert target.ranges() == [(0, 5, 0, 5, False)]
    assert [h.base_sequence for h in target.log.headers()] == [0, 2]
    assert {h.producer_id for h in target.log.headers()} == {OWN_PRODUCER_ID}


def test_p1_answers_are_of_the_oldest_batch_and_settle_in_source_order() -> None:
    target = Target(source_log(1, 2, 3), assignment())
    target.begin()
    target.acknowledge(target.send()[1])
    second, third = target.send()[1], target.send()[1]
    target.acknowledge(second)
    assert not target.copy.window.is_empty, "the third is not known to be there"
    target.acknowledge(third)
    assert target.ranges() == [(0, 6, 0, 6, False)]


def test_p2_nothing_is_sent_before_the_tail_is_read() -> None:
    target = Target(source_log(2), assignment())
    target.fetch()
    assert target.copy.next_copy is None
    target.read_tail()
    assert target.copy.next_copy is not None


def test_p3_what_is_not_acknowledged_is_not_recorded() -> None:
    target = Target(source_log(2, 3), assignment())
    target.begin()
    target.send()
    result = target.copy.result()
    assert (result.syncs, result.position.source_offset, result.position.next_sequence) == ((), 0, 0)


def test_p4_after_doubt_the_tail_tells_what_was_written() -> None:
    target = Target(source_log(2, 3, 1), assignment())
    target.begin()
    target.acknowledge(target.send()[1])
    target.send()
    target.lose_answer()
    target.copy.doubt("the connection was lost", now=5.0)
    assert not target.copy.target.wants_tail(5.0)
    assert target.copy.target.wants_tail(5.2)
    target.copy_all()
    assert target.ranges() == [(0, 2, 0, 2, False), (2, 5, 2, 5, True), (5, 6, 5, 6, False)]
    assert [h.base_sequence for h in target.log.headers()] == [0, 2, 5]


def test_p4_the_tail_waits_for_requests_in_flight() -> None:
    target = Target(source_log(2, 3), assignment())
    target.begin()
    target.send()
    target.copy.doubt("45", now=0.0)
    assert not target.copy.target.wants_tail(9.0)
    target.lose_answer()
    assert target.copy.target.wants_tail(9.0)


def test_p5_one_batch_at_a_time_until_one_is_acknowledged_then_one_node_at_a_time() -> None:
    target = Target(source_log(1, 1, 1, 1), assignment())
    target.begin()
    first = target.send()[1]
    assert not target.copy.window.may_send_to(NODE)
    target.acknowledge(first)
    target.send()
    assert target.copy.window.may_send_to(NODE)
    assert not target.copy.window.may_send_to(OTHER_NODE)
    target.acknowledge(1)
    assert target.copy.window.may_send_to(OTHER_NODE)


def test_p5_starts_anew_after_doubt() -> None:
    target = Target(source_log(1, 1, 1), assignment())
    target.begin()
    target.acknowledge(target.send()[1])
    target.copy.doubt("the leader moved", now=0.0)
    target.begin()
    target.send()
    assert not target.copy.window.may_send_to(NODE)


def test_a_tail_that_is_not_the_planned_batch_stops_the_partition() -> None:
    log = PartitionLog()
    own = application_batch(
        [content(b"else", b"v")] * 2, [NOW_MS] * 2, producer=Producer(OWN_PRODUCER_ID, 0, 0)
    )
    log.append(own, now_ms=NOW_MS)
    target = Target(source_log(2), assignment(), log)
    target.copy_all()
    assert target.stop is StopCause.TAIL_MISMATCH
    assert target.ranges() == []
    assert log.end == 2


def test_a_tail_with_the_right_records_under_another_sequence_is_not_recognised() -> None:
    source = source_log(2)
    log = PartitionLog()
    contents = [content(b"0-%d" % n, b"v") for n in range(2)]
    log.append(
        application_batch(contents, [NOW_MS] * 2, producer=Producer(OWN_PRODUCER_ID, 0, 7)), now_ms=NOW_MS
    )
    target = Target(source, assignment(), log)
    target.copy_all()
    assert target.stop is StopCause.TAIL_MISMATCH


def test_own_records_out_of_sequence_are_explained_by_no_loss() -> None:
    """Something that the ledger does not know of lies before them, or they came twice."""
    log = PartitionLog()
    own = application_batch(
        [content(b"else", b"v")] * 2, [NOW_MS] * 2, producer=Producer(OWN_PRODUCER_ID, 0, 7)
    )
    log.append(own, now_ms=NOW_MS)
    target = Target(source_log(2), assignment(source_may_be_deleted=True), log)
    target.copy_all()
    assert (target.stop, target.ranges()) == (StopCause.TAIL_MISMATCH, [])


def test_a_recompressed_tail_is_recognised_by_its_records() -> None:
    log = PartitionLog(target_codec=2)
    first = Target(source_log(2, 3), assignment(), log)
    first.copy_all()
    second = Target(first.source, assignment(), log)
    second.copy_all()
    assert second.ranges() == [(0, 5, 0, 5, True)]
    assert log.end == 5


def test_a_foreign_record_in_the_tail_stops_an_exclusive_partition() -> None:
    log = PartitionLog()
    log.append(FOREIGN, now_ms=NOW_MS)
    target = Target(source_log(2), assignment(), log)
    target.copy_all()
    assert target.stop is StopCause.FOREIGN_WRITE
    assert log.end == 1


def test_a_foreign_record_is_met_even_when_there_is_nothing_to_copy() -> None:
    log = PartitionLog()
    log.append(FOREIGN, now_ms=NOW_MS)
    target = Target(source_log(), assignment(), log)
    target.read_tail()
    assert target.stop is StopCause.FOREIGN_WRITE


def test_foreign_records_are_passed_over_in_a_shared_partition() -> None:
    log = PartitionLog()
    log.append(FOREIGN, now_ms=NOW_MS)
    target = Target(source_log(2, 3), assignment(exclusive=False), log)
    target.begin()
    target.acknowledge(target.send()[1])
    log.append(FOREIGN, now_ms=NOW_MS)
    target.acknowledge(target.send()[1])
    assert target.ranges() == [(0, 2, 1, 3, False), (2, 5, 4, 7, False)]
    again = Target(target.source, assignment(exclusive=False), log)
    again.copy_all()
    assert again.ranges() == [(0, 2, 1, 3, True), (2, 5, 4, 7, True)]


def test_a_batch_that_lands_elsewhere_is_recorded_and_stops_an_exclusive_partition() -> None:
    target = Target(source_log(2, 3), assignment())
    target.begin()
    target.log.append(FOREIGN, now_ms=NOW_MS)
    target.acknowledge(target.send()[1])
    assert target.copy.target.reads_between
    assert target.copy.next_copy is None, "what lies before it is read first"
    target.read_tail()
    assert target.stop is StopCause.FOREIGN_WRITE
    assert target.ranges() == [(0, 2, 1, 3, False)]
    assert target.copy.next_copy is None


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_what_a_schema_registry_writes_at_its_start_stops_nothing_and_other_records_do(codec: int) -> None:
    """Before a task, and between its batches, each time that the registry starts; the topic may compress it."""
    plain = application_batch([content(b'{"keytype":"NOOP","magic":0}', None)], [NOW_MS])
    noop = replace(plain, attributes=codec)
    log = PartitionLog()
    log.append(noop, now_ms=NOW_MS)
    target = Target(source_log(2, 3), assignment(), log)
    target.begin()
    target.acknowledge(target.send()[1])
    log.append(noop, now_ms=NOW_MS)
    target.acknowledge(target.send()[1])
    target.read_tail()
    assert (target.stop, target.ranges()) == (None, [(0, 2, 1, 3, False), (2, 5, 4, 7, False)])
    again = Target(target.source, assignment(), log)
    again.copy_all()
    assert (again.stop, again.ranges()) == (None, [(0, 2, 1, 3, True), (2, 5, 4, 7, True)])
    log.append(application_batch([content(b'{"keytype":"SCHEMA"}', b"{}")], [NOW_MS]), now_ms=NOW_MS)
    last = Target(target.source, assignment(), log)
    last.read_tail()
    last.copy_all()
    assert last.stop is StopCause.FOREIGN_WRITE


def test_what_lies_behind_others_records_too_is_left_to_the_next_look() -> None:
    """Batches on their way when the first of them landed elsewhere are recorded as far as nothing is between."""
    target = Target(source_log(1, 1, 1, 1), assignment())
    target.begin()
    target.acknowledge(target.send()[1])
    target.log.append(FOREIGN, now_ms=NOW_MS)
    second, third = target.send()[1], target.send()[1]
    target.log.append(FOREIGN, now_ms=NOW_MS)
    fourth = target.send()[1]
    for base_offset in (second, third, fourth):
        target.acknowledge(base_offset)
    target.read_tail()
    assert target.stop is StopCause.FOREIGN_WRITE
    assert target.ranges() == [(0, 1, 0, 1, False), (1, 3, 2, 4, False)]


def test_a_batch_that_waits_to_be_looked_before_is_not_recorded_when_the_task_ends() -> None:
    target = Target(source_log(2, 3), assignment(exclusive=False))
    target.begin()
    target.log.append(FOREIGN, now_ms=NOW_MS)
    target.acknowledge(target.send()[1])
    result = target.copy.result()
    assert (result.syncs, result.position.source_offset, result.tail.start) == ((), 0, 0)


def test_a_marker_at_the_target_takes_an_offset_and_is_nobodys_record() -> None:
    target = Target(source_log(2, 3), assignment())
    target.log.end_transaction(99, 0, commit=False, now_ms=NOW_MS)
    target.copy_all()
    assert target.stop is None
    assert target.ranges() == [(0, 5, 1, 6, False)]


@pytest.mark.parametrize("number", [0, 1])
def test_a_marker_that_comes_before_a_batch_on_its_way_stops_nothing(number: int) -> None:
    """Also behind others that are on their way: each record is at the target once, in order."""
    target = Target(source_log(2, 3, 1, 2), assignment())
    target.begin()
    target.acknowledge(target.send()[1])
    landed = []
    for at in range(2):
        if at == number:
            target.log.end_transaction(99, 0, commit=False, now_ms=NOW_MS)
        landed.append(target.send()[1])
    for base_offset in landed:
        target.acknowledge(base_offset)
    target.copy_all()
    assert target.stop is None
    written = [one.content for one in target.log.readable()]
    assert written == [one.content for one in target.source.readable()]
    assert target.copy.result().position.source_offset == 8


def test_a_hole_before_a_batch_on_its_way_may_have_held_a_record() -> None:
    """What a cleaner has taken was somebody's."""
    target = Target(source_log(2), assignment())
    target.begin()
    target.log.end_transaction(99, 0, commit=False, now_ms=NOW_MS)
    target.log.append(application_batch([content(b"0-0", b"theirs")], [NOW_MS]), now_ms=NOW_MS)
    target.acknowledge(target.send()[1])
    target.log.compact(target.log.end)
    target.read_tail()
    assert target.stop is StopCause.FOREIGN_WRITE


def test_gaps_around_copied_batches_settle_in_source_order() -> None:
    source = source_log(2)
    source.append(
        application_batch(
            [content(b"t", b"v")], [NOW_MS], attributes=TRANSACTIONAL, producer=Producer(5, 0, 0)
        ),
        now_ms=NOW_MS,
    )
    source.end_transaction(5, 0, commit=False, now_ms=NOW_MS)
    target = Target(source, assignment())
    target.begin()
    assert target.copy.result().position.source_offset == 0, (
        "the gap behind an unacknowledged batch is not settled"
    )
    base_offset = target.send()[1]
    target.acknowledge(base_offset)
    [sync] = target.copy.result().syncs
    assert [(g.source_start, g.source_end, g.cause) for g in sync.gaps] == [
        (2, 3, GapCause.ABORTED),
        (3, 4, GapCause.CONTROL),
    ]


def test_bad_bytes_stop_the_partition_after_what_is_good() -> None:
    source = source_log(2, 2)
    records = bytearray(source.read(0, committed=True, max_bytes=1 << 20, at_least_one=True).records)
    records[-1] ^= 1
    target = Target(source, assignment())
    target.copy.take_fetched(answer(bytes(records)))
    assert target.stop is StopCause.CORRUPT


def test_success_at_one_side_does_not_hide_failures_at_the_other() -> None:
    copy = PartitionCopy(assignment(), writers())
    for _ in range(3):
        copy.troubles.pause(Side.TARGET, "the target does not answer", now=0.0)
        copy.take_fetched(fetched_from(source_log(), 0))
    assert (copy.troubles.failures(Side.TARGET), copy.troubles.trouble) == (3, "the target does not answer")
    copy.target.take_tail(memoryview(b""), high_watermark=0)
    assert (copy.troubles.failures(Side.TARGET), copy.troubles.trouble) == (0, None)


def test_a_tail_that_can_be_read_does_not_hide_that_nothing_can_be_written() -> None:
    target = Target(source_log(2, 3), assignment())
    target.begin()
    _, written = target.send()
    target.lose_answer()
    target.copy.doubt("too few replicas", now=0.0)
    target.read_tail()
    before = target.copy.troubles.trouble
    target.fetch()  # the first batch is recognised at the target
    assert (written, before, target.copy.troubles.trouble) == (0, "too few replicas", None)


def test_trouble_in_writing_is_over_with_an_acknowledgement() -> None:
    target = Target(source_log(2), assignment())
    target.begin()
    target.copy.send_next(NODE)
    target.lose_answer()
    target.copy.doubt("too few replicas", now=0.0)
    target.copy_all()
    assert target.copy.troubles.trouble is None


def test_pauses_grow_up_to_two_seconds() -> None:
    copy = PartitionCopy(assignment(), writers())
    waits = []
    for _ in range(8):
        copy.troubles.pause(Side.SOURCE, "no answer", now=100.0)
        waits.append(round(copy.troubles.retry_at - 100.0, 3))
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]


def test_the_end_is_reached_when_it_is_recorded() -> None:
    target = Target(source_log(2, 3), assignment(end_offset=2))
    target.begin()
    base_offset = target.send()[1]
    assert target.copy.target.is_active
    assert target.copy.next_copy is None, "nothing after the end is planned"
    target.acknowledge(base_offset)
    assert target.copy.target.has_reached_end
    assert not target.copy.target.is_active


def test_a_batch_that_lands_below_what_was_written_is_not_recorded() -> None:
    """The target lost what it had acknowledged, and the broker forgot the sequence with it."""
    target = Target(source_log(2, 3, 4), assignment(exclusive=False))
    target.begin()
    for _ in range(2):
        target.acknowledge(target.send()[1])
    target.log.lose_end(0)
    error, base_offset = target.send()
    assert (error, base_offset) == (0, 0)
    target.acknowledge(base_offset)
    assert target.stop is StopCause.TARGET_OUT_OF_RANGE
    assert target.ranges() == [(0, 5, 0, 5, False)]
    assert target.copy.result().target_lost_from == 0


def test_when_the_target_lost_others_records_alone_it_is_looked_at_again() -> None:
    target = Target(source_log(2, 3), assignment(exclusive=False))
    target.log.append(FOREIGN, now_ms=NOW_MS)
    target.begin()
    target.log.lose_end(0)
    target.acknowledge(target.send()[1])
    assert target.stop is None
    target.copy_all()
    assert target.ranges() == [(0, 2, 0, 2, True), (2, 5, 2, 5, False)]


def filled_by_others(*counts: int) -> PartitionLog:
    log = PartitionLog()
    for count in counts:
        log.append(application_batch([content(b"not", b"ours")] * count, [NOW_MS] * count), now_ms=NOW_MS)
    return log


def test_what_others_wrote_to_a_shared_partition_is_read_once_over_rounds_that_are_too_short() -> None:
    log = filled_by_others(4, 4, 4)
    first = Target(source_log(2), assignment(exclusive=False), log)
    read = log.read(0, committed=False, max_bytes=1, at_least_one=True)
    first.copy.target.take_tail(memoryview(bytearray(read.records)), high_watermark=log.high_watermark)
    assert first.copy.next_copy is None
    assert first.copy.result().tail.start == 4
    second = Target(first.source, assignment(exclusive=False, tail=TailKnowledge(start=4)), log)
    assert second.copy.target.tail.position == 4
    second.copy_all()
    assert second.ranges() == [(0, 2, 12, 14, False)]
    assert second.copy.result().tail.start == 12


def test_own_records_that_wait_for_their_source_are_read_again() -> None:
    log = filled_by_others(3)
    writing = Target(source_log(2), assignment(exclusive=False), log)
    writing.copy_all()
    again = Target(writing.source, assignment(exclusive=False), log)
    again.read_tail()
    assert again.copy.result().tail.start == 3
    last = Target(writing.source, assignment(exclusive=False, tail=TailKnowledge(start=3)), log)
    last.copy_all()
    assert last.ranges() == [(0, 2, 3, 5, True)]


def test_an_exclusive_or_stopped_partition_is_read_from_its_last_record() -> None:
    exclusive = Target(source_log(2), assignment())
    exclusive.copy_all()
    assert exclusive.copy.result().tail.start == 0
    stopped = Target(
        source_log(2), assignment(exclusive=False, tail=TailKnowledge(start=2)), filled_by_others(2)
    )
    stopped.read_tail()
    stopped.copy.halt(StopCause.TARGET_OUT_OF_RANGE, "lost")
    assert stopped.copy.result().tail.start == 0


def test_a_shared_partition_that_went_back_is_read_from_the_last_record_again() -> None:
    log = filled_by_others(6)
    target = Target(source_log(2, 3), assignment(exclusive=False, tail=TailKnowledge(start=6)), log)
    target.begin()
    log.lose_end(0)
    target.acknowledge(target.send()[1])
    assert target.stop is None
    assert target.copy.target.tail.position == 0


def test_the_latency_of_each_batch_is_from_its_first_record_to_its_acknowledgement() -> None:
    target = Target(source_log(2, 3), assignment())
    target.begin()
    target.acknowledge(target.send()[1], after_ms=40)
    target.acknowledge(target.send()[1], after_ms=7_000)
    latency = target.copy.result().latency
    assert latency is not None
    assert latency.sum_s == pytest.approx(7.04)
    counts = dict(latency.cumulated)
    assert [counts[bound] for bound in (0.025, 0.05, 5.0, 10.0, float("inf"))] == [0, 1, 1, 2, 2]


def test_without_an_acknowledgement_there_is_no_latency() -> None:
    target = Target(source_log(2), assignment())
    target.begin()
    target.send()
    assert target.copy.result().latency is None
