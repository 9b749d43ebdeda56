"""Applications that write the same key and value again and again: whose copy lies at the target is told by time."""

import pytest

from ledger.facts.syncs import SyncCause
from ledger.mirror.assignment import StopCause
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.copy_tasks import NOW_MS, OWN_PRODUCER_ID, Target, assignment

AN_HOUR_MS = 3_600_000


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
