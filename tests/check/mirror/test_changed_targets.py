"""A target that is not as it was left: another leader, a log that went back and grew again, batches that came late."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ledger.adapters.memory.partition_log import PartitionLog
from ledger.adapters.memory.stored_batches import StoredBatch
from ledger.domain.facts import SyncCause, SyncKind
from ledger.mirror.assignments import Assignment, StopCause
from tests.support.copied_partitions import FOREIGN, NODE, NOW_MS, Target, source_log
from tests.support.sources import assignment

OWN_END = 5


def written_log(*, then: StoredBatch | None = None) -> PartitionLog:
    """A target that holds five records of the flow, and a batch behind them."""
    log = PartitionLog()
    Target(source_log(2, 3), assignment(), log).copy_all()
    if then is not None:
        log.append(then, now_ms=NOW_MS)
    return log


AT_ITS_END = assignment(position=OWN_END, target_end=OWN_END, next_sequence=OWN_END)
SHARED = replace(AT_ITS_END, exclusive=False)


def again(log: PartitionLog, told: Assignment = AT_ITS_END) -> Target:
    """A copy that goes on where `written_log` ends, under a leader that it has not met."""
    target = Target(source_log(2, 3, 4), told, log)
    target.copy.begin_tail(3)
    return target


def test_under_another_leader_the_flows_last_record_is_looked_for_and_not_taken_twice() -> None:
    target = again(written_log())
    assert target.copy.tail.position == OWN_END - 1
    target.copy_all()
    assert target.ranges() == [(5, 9, 5, 9, False)]
    assert target.copy.result().target_leader_epoch == 3


@pytest.mark.parametrize(
    "told",
    [
        replace(AT_ITS_END, target_leader_epoch=3),
        replace(AT_ITS_END, next_sequence=0),
        replace(AT_ITS_END, target_end=0),
    ],
    ids=["same leader", "nothing written", "empty target"],
)
def test_nothing_is_looked_for_under_the_same_leader_or_before_the_first_write(told: Assignment) -> None:
    target = again(written_log(), told)
    assert target.copy.tail.position == target.copy.assignment.target_end


@pytest.mark.parametrize("is_drained", [True, False], ids=["no more", "more to come"])
def test_own_records_without_a_source_are_told_once_the_source_has_no_more(is_drained: bool) -> None:
    """Not before the task ends, and not while the source may still show what they are copies of."""
    told = replace(assignment(position=5, target_end=0), lost_before=True)
    target = Target(source_log(2, 3), told, written_log())
    target.read_tail()
    if is_drained:
        target.fetch()
    assert target.copy.result().syncs == ()
    target.copy.conclude()
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
    assert target.copy.stop is not None
    assert "sequence 4" in target.copy.stop.message
    assert target.ranges() == []


def test_a_hole_where_the_last_record_was_proves_nothing() -> None:
    log = written_log(then=FOREIGN)
    log.delete_before(OWN_END)
    target = again(log, SHARED)
    read = log.read(OWN_END, committed=False, max_bytes=1 << 20, at_least_one=True)
    target.copy.take_tail(memoryview(bytearray(read.records)), high_watermark=log.high_watermark)
    assert target.stop is None
    assert target.copy.tail.head is None


def test_a_target_without_anything_there_is_read_from_the_recorded_end() -> None:
    log = written_log()
    target = again(log)
    target.copy.take_tail(memoryview(b""), high_watermark=OWN_END)
    assert (target.copy.tail.position, target.copy.tail.complete) == (OWN_END, False)


def test_a_first_look_reads_at_both_sides_though_the_end_is_reached() -> None:
    target = again(written_log(), replace(AT_ITS_END, stop_at=OWN_END, is_first_look=True))
    assert target.copy.is_active
    target.read_tail()
    assert target.copy.wants_records(0.0, buffer_limit=1)
    target.fetch()
    assert not target.copy.is_active
    assert target.copy.result().has_seen_both
    assert target.ranges() == []


def test_refused_sequences_are_counted_over_tasks_until_one_is_taken() -> None:
    target = again(written_log(), replace(AT_ITS_END, refused_sequences=4))
    assert target.copy.result().refused_sequences == 4
    target.copy_all()
    assert target.copy.result().refused_sequences == 0


def late(log: PartitionLog, *, sequence: int) -> None:
    """A batch of the flow's own that a broker takes which has forgotten its producer id."""
    batch = Target(source_log(3), replace(assignment(), next_sequence=sequence))
    batch.read_tail()
    batch.fetch()
    batch.copy.produce_requests = 0
    log.expire_producers(now_ms=NOW_MS + 10 * 86_400_000)
    assert log.produce(bytes(batch.copy.send_next(NODE)), now_ms=NOW_MS).error == 0


def landing_behind(log: PartitionLog, between: Callable[[], object]) -> Target:
    """A shared copy whose first batch lands behind what came after the tail was read."""
    target = Target(source_log(2, 3, 4), replace(assignment(exclusive=False), next_sequence=7), log)
    target.read_tail()
    target.fetch()
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
    assert target.copy.wants_tail(0.0)
    target.read_tail()
    assert target.copy.next_copy is not None
    target.copy_all()
    assert target.ranges() == [(0, 9, 1, 10, False)]


def test_p6_a_late_batch_of_its_own_among_them_stops_the_partition() -> None:
    log = PartitionLog()
    target = landing_behind(log, lambda: late(log, sequence=4))
    target.read_tail()
    assert target.stop is StopCause.TAIL_MISMATCH
    assert target.ranges() == [(0, 2, 3, 5, False)], "what landed is recorded all the same"


def test_p6_nothing_is_read_again_where_nothing_came_between() -> None:
    target = landing_behind(PartitionLog(), lambda: None)
    assert target.copy.next_copy is not None
