"""A target that is not as it was left, and whose the records are that lie there."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ledger.facts.syncs import NOTHING_KNOWN, SyncCause, SyncKind, TailKnowledge
from ledger.mirror.assignment import Assignment, StopCause
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import StoredBatch, application_batch, content
from tests.support.copy_tasks import (
    FOREIGN,
    NODE,
    NOW_MS,
    OWN_PRODUCER_ID,
    Target,
    assignment,
    moved,
    source_log,
)

# -- Another leader, another log -------------------------------------------------------------------

OWN_END = 5


def written_log(*, then: StoredBatch | None = None) -> PartitionLog:
    """A target that holds five records of the flow, written under leader epoch 2, and a batch behind them."""
    log = PartitionLog()
    for _ in range(2):
        log.fail_over(keep_held=True)
    Target(source_log(2, 3), assignment(), log).copy_all()
    if then is not None:
        log.append(then, now_ms=NOW_MS)
    return log


AT_ITS_END = assignment(position=OWN_END, target_end=OWN_END, next_sequence=OWN_END)
SHARED = replace(AT_ITS_END, exclusive=False)


def again(log: PartitionLog, told: Assignment = AT_ITS_END) -> Target:
    """A copy that goes on where `written_log` ends, under a leader that it has not met."""
    target = Target(source_log(2, 3, 4), told, log)
    target.copy.target.reading.begin_under(3)
    return target


def test_under_another_leader_the_flows_last_record_is_looked_for_and_not_taken_twice() -> None:
    target = again(written_log())
    assert target.copy.target.tail.position == OWN_END - 1
    target.copy_all()
    assert target.ranges() == [(5, 9, 5, 9, False)]
    assert target.copy.result().tail.leader_epoch == 3


@pytest.mark.parametrize(
    "told",
    [
        replace(AT_ITS_END, tail=TailKnowledge(leader_epoch=3)),
        moved(AT_ITS_END, next_sequence=0),
        moved(AT_ITS_END, target_offset=0),
    ],
    ids=["same leader", "nothing written", "empty target"],
)
def test_nothing_is_looked_for_under_the_same_leader_or_before_the_first_write(told: Assignment) -> None:
    target = again(written_log(), told)
    assert target.copy.target.tail.position == target.copy.assignment.position.target_offset


@pytest.mark.parametrize("is_drained", [True, False], ids=["no more", "more to come"])
def test_own_records_without_a_source_are_told_once_the_source_has_no_more(is_drained: bool) -> None:
    """Not before the task ends, and not while the source may still show what they are copies of."""
    told = assignment(position=5, target_end=0, source_may_be_deleted=True)
    target = Target(source_log(2, 3), told, written_log())
    target.read_tail()
    if is_drained:
        target.fetch()
    assert target.copy.result().syncs == ()
    target.copy.target.conclude()
    syncs = target.copy.result().syncs
    found = [(sync.kind, sync.cause, sync.target_start, sync.target_end) for sync in syncs]
    assert found == ([(SyncKind.UNPAIRED, SyncCause.LOST_SOURCE, 0, 5)] if is_drained else [])


@pytest.mark.parametrize("kept", [4, 2, 0])
def test_a_target_that_lost_its_end_and_has_grown_past_it_is_found_out(kept: int) -> None:
    """Also where the log was shorter for a while and reaches past the recorded end by others' records."""
    log = written_log()
    log.lose_end(kept)
    for _ in range(6):
        log.append(FOREIGN, now_ms=NOW_MS)
    target = again(log, SHARED)
    target.read_tail()
    assert target.stop is StopCause.TARGET_OUT_OF_RANGE
    assert target.copy.target.stop is not None
    assert "sequence 4" in target.copy.target.stop.message
    assert target.ranges() == []


@pytest.mark.parametrize("grown_to", [OWN_END, 9])
def test_a_target_that_loses_its_end_behind_the_read_of_it_is_found_out_by_the_first_batch(
    grown_to: int,
) -> None:
    """Others have filled it since, so the batch lands where it may, and nothing of it is recorded.

    Where it lands as expected, the next attempt finds that out: the flow's last record lies there, those before do not.
    """
    log = written_log()
    told = replace(SHARED, tail=TailKnowledge(leader_epoch=2))
    target = Target(source_log(2, 3, 4), told, log)
    target.begin()
    log.lose_end(0)
    while log.end < grown_to:
        log.append(FOREIGN, now_ms=NOW_MS)
    error, base_offset = target.send()
    assert (error, base_offset) == (0, log.end - 4)
    target.acknowledge(base_offset)
    while target.copy.target.wants_tail(0.0):
        target.read_tail()
    if grown_to > OWN_END:
        assert (target.stop, target.ranges()) == (StopCause.TARGET_OUT_OF_RANGE, [])
        assert target.copy.result().target_whole_below == 0
        return
    assert (target.stop, target.ranges()) == (None, [(5, 9, 5, 9, False)])
    later = again(log, replace(told, position=target.copy.result().position))
    later.read_tail()
    assert (later.stop, later.copy.result().target_whole_below) == (StopCause.TARGET_OUT_OF_RANGE, 0)


def test_a_target_that_only_has_another_leader_is_read_on() -> None:
    """Also by an epoch under which nothing was written: the leader says that the one before ends where the log did."""
    log = written_log(then=FOREIGN)
    log.fail_over(keep_held=True)
    target = again(log, replace(SHARED, tail=TailKnowledge(leader_epoch=2)))
    target.copy_all()
    assert (target.stop, len(target.ranges())) == (None, 1)


def test_another_record_is_looked_for_until_it_is_dealt_with() -> None:
    """Whoever was to react may not have been able to ask the target."""
    log = written_log()
    log.lose_end(0)
    for _ in range(6):
        log.append(FOREIGN, now_ms=NOW_MS)
    target = again(log, replace(SHARED, tail=TailKnowledge(leader_epoch=2)))
    target.read_tail()
    assert target.stop is StopCause.TARGET_OUT_OF_RANGE
    assert target.copy.result().tail.leader_epoch == 2


def test_a_look_for_the_last_record_that_is_cut_off_begins_again() -> None:
    """In the next task, and with the next read of the same one."""
    target = again(written_log(), replace(AT_ITS_END, tail=TailKnowledge(leader_epoch=2)))
    assert target.copy.result().tail.leader_epoch == 2
    target.copy.doubt("connection lost", now=0.0)
    target.copy.target.reading.begin_under(3)
    assert target.copy.target.tail.position == OWN_END - 1
    target.copy_all()
    assert target.copy.result().tail.leader_epoch == 3


def test_a_look_that_is_out_of_range_is_done_with_once_the_tail_is_read_behind_it() -> None:
    """It is not where that is out of range, too: the target went back."""
    log = written_log(then=FOREIGN)
    log.delete_before(OWN_END)
    target = again(log, replace(SHARED, tail=TailKnowledge(leader_epoch=2)))
    assert target.copy.target.reading.skip_last_record()
    target.copy.target.reading.begin_under(3)
    assert target.copy.target.tail.position == OWN_END
    assert target.copy.result().tail.leader_epoch == 2
    target.read_tail()
    assert target.copy.result().tail.leader_epoch == 3


def test_a_hole_where_the_last_record_was_proves_nothing() -> None:
    log = written_log(then=FOREIGN)
    log.delete_before(OWN_END)
    target = again(log, SHARED)
    read = log.read(OWN_END, committed=False, max_bytes=1 << 20, at_least_one=True)
    target.copy.target.take_tail(memoryview(bytearray(read.records)), high_watermark=log.high_watermark)
    assert target.stop is None
    assert target.copy.target.tail.head is None


def test_a_target_without_anything_there_is_read_from_the_recorded_end() -> None:
    log = written_log()
    target = again(log)
    target.copy.target.take_tail(memoryview(b""), high_watermark=OWN_END)
    assert (target.copy.target.tail.position, target.copy.target.tail.complete) == (OWN_END, False)


def test_a_first_look_reads_at_both_sides_though_the_end_is_reached() -> None:
    target = again(written_log(), replace(AT_ITS_END, end_offset=OWN_END, tail=NOTHING_KNOWN))
    assert target.copy.target.is_active
    target.read_tail()
    assert target.copy.wants_records(0.0, buffer_limit=1)
    target.fetch()
    assert not target.copy.target.is_active
    assert target.copy.result().tail.both_sides_seen
    assert target.ranges() == []


def test_refused_sequences_are_counted_over_tasks_until_one_is_taken() -> None:
    target = again(written_log(), replace(AT_ITS_END, tail=TailKnowledge(refused_sequences=4)))
    assert target.copy.result().tail.refused_sequences == 4
    target.copy_all()
    assert target.copy.result().tail.refused_sequences == 0


def late(log: PartitionLog, *, sequence: int) -> None:
    """A batch of the flow's own that a broker takes which has forgotten its producer id."""
    batch = Target(source_log(3), assignment(next_sequence=sequence))
    batch.read_tail()
    batch.fetch()
    log.expire_producers(now_ms=NOW_MS + 10 * 86_400_000)
    assert log.produce(bytes(batch.copy.send_next(NODE)), now_ms=NOW_MS).error == 0


def landing_behind(log: PartitionLog, between: Callable[[], object], *, exclusive: bool = False) -> Target:
    """A copy whose first batch lands behind what came after the tail was read."""
    told = assignment(exclusive=exclusive, next_sequence=7)
    target = Target(source_log(2, 3, 4), told, log)
    target.begin()
    between()
    log.expire_producers(now_ms=NOW_MS + 10 * 86_400_000)
    error, base_offset = target.send()
    assert error == 0
    target.acknowledge(base_offset)
    return target


def test_p6_what_came_before_the_first_batch_of_an_attempt_is_read_before_the_second() -> None:
    log = PartitionLog()
    target = landing_behind(log, lambda: log.append(FOREIGN, now_ms=NOW_MS))
    assert target.copy.next_copy is None
    assert target.copy.target.wants_tail(0.0)
    target.read_tail()
    assert target.copy.next_copy is not None
    target.copy_all()
    assert target.ranges() == [(0, 9, 1, 10, False)]


@pytest.mark.parametrize("exclusive", [False, True])
def test_p6_a_late_batch_of_its_own_among_them_is_recorded_and_stops_the_partition(exclusive: bool) -> None:
    log = PartitionLog()
    target = landing_behind(log, lambda: late(log, sequence=4), exclusive=exclusive)
    target.read_tail()
    assert target.stop is StopCause.TAIL_MISMATCH
    repeated, landed = target.copy.result().syncs
    assert (repeated.kind, repeated.cause) == (SyncKind.UNPAIRED, SyncCause.REPEATED)
    assert (repeated.target_start, repeated.target_end, repeated.first_sequence) == (0, 3, 4)
    assert (landed.source_start, landed.source_end, landed.target_start) == (0, 2, 3)
    assert landed.first_sequence == 7, "the flow's next sequence stays what it was"
    assert target.copy.result().position.next_sequence == 9


def test_p6_holds_for_every_batch_of_an_exclusive_target() -> None:
    """The broker forgets the flow while it is written with, and takes what came late."""
    log = PartitionLog()
    target = Target(source_log(2, 3, 4), assignment(next_sequence=7), log)
    target.begin()
    target.acknowledge(target.send()[1])
    late(log, sequence=4)
    log.expire_producers(now_ms=NOW_MS + 10 * 86_400_000)
    target.acknowledge(target.send()[1])
    target.read_tail()
    told = [(s.cause, s.target_start, s.target_end, s.first_sequence) for s in target.copy.result().syncs]
    assert told == [(None, 0, 2, 7), (SyncCause.REPEATED, 2, 5, 4), (None, 5, 8, 9)]


def test_p6_nothing_is_read_again_where_nothing_came_between() -> None:
    target = landing_behind(PartitionLog(), lambda: None)
    assert target.copy.next_copy is not None


def cut_off(log: PartitionLog, *, remembered_sequence: int | None = None) -> Target:
    """A shared copy that goes on where `written_log` ends, at a log that begins further on by now."""
    assigned = replace(SHARED, target_log_start=log.log_start, remembered_sequence=remembered_sequence)
    return Target(source_log(2, 3, 4), assigned, log)


def begun_at(start: int, *, own: int = 0) -> PartitionLog:
    """A target that holds five records of the flow, `own` more at the place, and lost what lay before."""
    log = written_log()
    while log.end < start:
        log.append(FOREIGN, now_ms=NOW_MS)
    if own:
        again = Target(source_log(2, 3, own), moved(SHARED, target_offset=start), log)
        again.copy_all()
    log.delete_before(start)
    return log


def told(target: Target) -> list[tuple[object, ...]]:
    return [
        (s.cause, s.source_start, s.source_end, s.target_start, s.target_end, s.first_sequence, s.records)
        for s in target.copy.result().syncs
    ]


def test_a_target_that_begins_behind_the_recorded_end_is_written_where_it_begins() -> None:
    target = cut_off(begun_at(8))
    assert target.copy.target.tail.position == 8
    target.copy_all()
    assert told(target) == [(SyncCause.RETENTION, 5, 5, 5, 8, 5, 0), (None, 5, 9, 8, 12, 5, 4)]


def test_the_first_own_batch_that_is_left_tells_the_sequence() -> None:
    """Six own records before it are gone, and it is the copy of the very records that come next."""
    log = begun_at(5, own=6)
    log.delete_before(11)
    own = moved(SHARED, source_offset=5, target_offset=11, next_sequence=11)
    Target(source_log(2, 3, 4), own, log).copy_all()
    target = cut_off(log)
    target.copy_all()
    assert told(target) == [(SyncCause.RETENTION, 5, 5, 5, 11, 11, 0), (None, 5, 9, 11, 15, 11, 4)]


def test_an_own_batch_that_reaches_below_the_logs_start_is_recovered_whole() -> None:
    log = begun_at(5, own=4)
    log.delete_before(7)
    target = cut_off(log)
    target.copy_all()
    assert told(target) == [(None, 5, 9, 5, 9, 5, 4)]


def test_what_the_target_remembers_tells_the_sequence_where_nothing_is_left() -> None:
    log = begun_at(5, own=6)
    log.delete_before(11)
    assert log.expected_sequence(OWN_PRODUCER_ID) == 11
    target = cut_off(log, remembered_sequence=11)
    target.copy_all()
    assert told(target) == [(SyncCause.RETENTION, 5, 5, 5, 11, 11, 0), (None, 5, 9, 11, 15, 11, 4)]


def test_own_records_that_are_left_without_their_source_are_told() -> None:
    log = begun_at(5, own=6)
    log.delete_before(11)
    other = PartitionLog()
    for batch in (7, 8):
        other.append(application_batch([content(b"later", b"%d" % batch)], [NOW_MS]), now_ms=NOW_MS)
    late_copy = assignment(exclusive=False, target_end=11, next_sequence=11)
    Target(other, late_copy, log).copy_all()
    target = cut_off(log)
    target.copy_all()
    assert told(target) == [
        (SyncCause.RETENTION, 5, 5, 5, 11, 11, 0),
        (SyncCause.LOST_SOURCE, 5, 5, 11, 13, 11, 2),
        (None, 5, 9, 13, 17, 13, 4),
    ]


def test_a_quiet_partition_says_where_its_target_begins_without_a_record_to_copy() -> None:
    target = Target(source_log(2, 3), replace(SHARED, target_log_start=8), begun_at(8))
    target.read_tail()
    assert told(target) == [(SyncCause.RETENTION, 5, 5, 5, 8, 5, 0)]
    assert target.copy.result().position.target_offset == 8


@pytest.mark.parametrize("where", [0, 1])
def test_a_tail_that_cannot_be_read_stops_the_partition(where: int) -> None:
    log = written_log(then=FOREIGN)
    records = bytearray(log.read(0, committed=False, max_bytes=1 << 20, at_least_one=True).records)
    records[-1 if where else 61] ^= 0xFF
    target = Target(source_log(2, 3), assignment(), log)
    target.copy.target.take_tail(memoryview(records), high_watermark=log.high_watermark)
    assert target.stop is StopCause.TARGET_CORRUPT
    assert target.copy.next_copy is None


# -- Equal keys and values -------------------------------------------------------------------------


def beat(log: PartitionLog, *seconds: int) -> None:
    """A heartbeat at each of these times, in a batch of its own."""
    for second in seconds:
        at_ms = NOW_MS + second * 1000
        log.append(application_batch([content(b"host-1", b"up")], [at_ms]), now_ms=at_ms)


def overtaken(target_log: PartitionLog) -> PartitionLog:
    """Five heartbeats were copied and not recorded, retention took them, and five new ones came."""
    source = PartitionLog()
    beat(source, *range(5))
    Target(source, assignment(), target_log).copy_all()
    beat(source, *range(3600, 3605))
    source.delete_before(5)
    return source


def times(log: PartitionLog) -> list[int]:
    return [(record.timestamp - NOW_MS) // 1000 for record in log.readable()]


@pytest.mark.parametrize("log_append_time", [False, True])
def test_heartbeats_after_a_loss_are_copied_and_not_taken_for_those_that_are_gone(
    log_append_time: bool,
) -> None:
    log = PartitionLog(log_append_time=log_append_time)
    source = overtaken(log)
    again = Target(source, assignment(position=5, source_may_be_deleted=True), log)
    again.copy_all()
    unpaired, copied = again.copy.result().syncs
    assert (unpaired.cause, unpaired.target_start, unpaired.target_end) == (SyncCause.LOST_SOURCE, 0, 5)
    assert (copied.source_start, copied.source_end, copied.target_start, copied.recovered) == (
        5,
        10,
        5,
        False,
    )
    if not log_append_time:
        assert times(log) == [0, 1, 2, 3, 4, 3600, 3601, 3602, 3603, 3604]


def test_heartbeats_that_were_copied_and_not_recorded_are_recovered() -> None:
    source, log = PartitionLog(), PartitionLog()
    beat(source, *range(5))
    Target(source, assignment(), log).copy_all()
    beat(source, 5)
    again = Target(source, assignment(), log)
    again.copy_all()
    assert again.ranges() == [(0, 5, 0, 5, True), (5, 6, 5, 6, False)]


def test_heartbeats_that_an_unclean_leader_replaced_are_not_taken_for_their_successors() -> None:
    """The recorded position lies where both lives of the source agree, so nothing says that records are gone."""
    source, log = PartitionLog(), PartitionLog()
    beat(source, *range(5))
    Target(source, assignment(), log).copy_all()
    source.lose_end(2)
    beat(source, *range(3600, 3603))
    again = Target(source, assignment(position=2, target_end=2, next_sequence=2), log)
    again.copy_all()
    assert again.stop is StopCause.TAIL_MISMATCH
    assert again.ranges() == []


def test_a_batch_that_the_targets_cleaner_emptied_is_not_taken_for_a_later_one_after_a_loss() -> None:
    """A cleaner keeps the last batch of a producer though none of its records is left."""
    source, log = PartitionLog(), PartitionLog()
    beat(source, 0)
    Target(source, assignment(), log).copy_all()
    beat(log, 1)
    beat(source, 3600)
    source.delete_before(1)
    log.compact(log.end)
    assert [(header.producer_id, header.count) for header in log.headers()] == [(OWN_PRODUCER_ID, 0), (-1, 1)]
    again = Target(source, assignment(position=1, exclusive=False, source_may_be_deleted=True), log)
    again.copy_all()
    assert times(log) == [1, 3600]
