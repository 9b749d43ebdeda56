"""What moves a partition other than by copying, and what is known of it afterwards."""

import pytest

from ledger.facts.syncs import (
    Gap,
    GapCause,
    PartitionPair,
    Position,
    SyncCause,
    TailKnowledge,
    source_may_be_deleted,
)
from ledger.mirror.states import PartitionState
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
    assert (
        moved.position.source_offset,
        moved.position.leader_epoch,
        moved.position.source_may_be_deleted,
    ) == (
        50,
        None,
        True,
    )


def test_behind_a_cut_it_continues_at_both_ends_and_every_own_record_has_its_source() -> None:
    moved = state()
    passed = moved.pass_copies(50, target_end=70)
    assert (passed.source_start, passed.source_end, passed.target_start, passed.target_end) == (
        30,
        50,
        70,
        70,
    )
    assert passed.gaps == (Gap(30, 50, GapCause.MIRROR_WRITE),)
    placed = moved.pass_target(80)
    assert (placed.source_start, placed.source_end, placed.target_start, placed.target_end) == (
        50,
        50,
        80,
        80,
    )
    assert (moved.position.source_offset, moved.position.target_offset, moved.position.leader_epoch) == (
        50,
        80,
        None,
    )
    assert not source_may_be_deleted(placed.kind, placed.cause)
