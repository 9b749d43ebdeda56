"""What moves a partition other than by copying, and what is known of it afterwards."""

from dataclasses import replace

import pytest

from ledger.domain.facts import SyncCause
from ledger.domain.supersession import Restart
from ledger.mirror.flow_topics import PartitionPair
from ledger.mirror.standing import Standing
from tests.support.sources import RECORDED, SOURCE, TARGET


def standing() -> Standing:
    return replace(Standing.recorded(PartitionPair(SOURCE, TARGET), RECORDED), tail_start=90)


def test_after_a_supersession_the_tail_is_read_from_where_the_target_ends() -> None:
    """What was found above there lies in a log that is not the same any more."""
    moved = standing()
    moved.supersede(Restart(20, 15, next_sequence=14, leader_epoch=1), SyncCause.TARGET_TRUNCATED)
    assert (moved.position, moved.target_end, moved.next_sequence, moved.tail_start) == (20, 15, 14, 0)


@pytest.mark.parametrize("cause", [SyncCause.RETENTION, SyncCause.DELETED_RECORDS, SyncCause.SKIPPED])
def test_after_a_loss_own_records_may_have_no_source(cause: SyncCause) -> None:
    moved = standing()
    fact = moved.lose(50, cause)
    assert (fact.source_start, fact.source_end, fact.target_start) == (30, 50, 25)
    assert (moved.position, moved.leader_epoch, moved.follows_loss) == (50, None, True)
