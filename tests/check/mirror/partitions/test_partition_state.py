"""What moves a partition other than by copying, and what is known of it afterwards."""

import pytest

from ledger.domain.facts import PartitionPair, SyncCause
from ledger.domain.offsets.position import Position, TailKnowledge
from ledger.mirror.partitions.partition_state import PartitionState
from tests.support.sources import RECORDED, SOURCE, TARGET


def state() -> PartitionState:
    return PartitionState(
        PartitionPair(SOURCE, TARGET), RECORDED.position, TailKnowledge(start=90, leader_epoch=4)
    )


def test_after_a_supersession_the_tail_is_read_from_where_the_target_ends() -> None:
    """What was found above there lies in a log that is not the same any more."""
    moved = state()
    restart = Position(source_offset=20, target_offset=15, next_sequence=14, leader_epoch=1)
    moved.supersede(restart, SyncCause.TARGET_TRUNCATED)
    assert (moved.position, moved.tail) == (restart, TailKnowledge(start=0, leader_epoch=4))


@pytest.mark.parametrize("cause", [SyncCause.RETENTION, SyncCause.DELETED_RECORDS, SyncCause.SKIPPED])
def test_after_a_loss_own_records_may_have_no_source(cause: SyncCause) -> None:
    moved = state()
    fact = moved.lose(50, cause)
    assert (fact.source_start, fact.source_end, fact.target_start) == (30, 50, 25)
    assert (moved.position.source_offset, moved.position.leader_epoch, moved.position.source_may_be_gone) == (
        50,
        None,
        True,
    )
