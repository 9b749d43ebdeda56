"""What is carried of a partition, and that those who carry it hold it whole."""

from collections.abc import Sequence
from dataclasses import fields

import pytest

from ledger.facts.syncs import FlowPosition, OffsetSync, Position, SyncCause, SyncKind, TailKnowledge
from ledger.mirror.assignment import Assignment, PartitionResult
from ledger.mirror.states import PartitionState
from tests.support.copy_tasks import SOURCE, TARGET

AT = Position(source_offset=9, target_offset=7, next_sequence=5, leader_epoch=2)
CARRIED = {field.name for value in (Position, TailKnowledge) for field in fields(value)}


def sync(kind: SyncKind, *, records: int = 3, recovered: bool = False) -> OffsetSync:
    return OffsetSync(
        source=SOURCE,
        target=TARGET,
        source_leader_epoch=2,
        source_start=9,
        source_end=9 + records,
        target_start=7,
        target_end=7 + records,
        first_sequence=5,
        kind=kind,
        cause=SyncCause.COMPACTED if kind is SyncKind.UNPAIRED else None,
        records=records,
        recovered=recovered,
    )


NEW, FOUND, GAPS = (
    sync(SyncKind.COPIED),
    sync(SyncKind.COPIED, recovered=True),
    sync(SyncKind.COPIED, records=0),
)
UNPAIRED = sync(SyncKind.UNPAIRED, recovered=True)


@pytest.mark.parametrize("carrier", [Assignment, FlowPosition, PartitionResult, PartitionState])
def test_who_carries_a_position_spells_none_of_its_fields(carrier: type) -> None:
    """So one more field is carried from the ledger to a task and back without a line there."""
    held = {field.name for field in fields(carrier)}
    assert "position" in held
    assert held & CARRIED == set()


@pytest.mark.parametrize(
    ("syncs", "before", "after"),
    [
        ((), False, False),
        ((), True, True),
        ((NEW,), True, False),
        ((FOUND,), True, True),
        ((GAPS,), True, True),
        ((UNPAIRED,), False, True),
        ((NEW, UNPAIRED), False, True),
        ((UNPAIRED, NEW), True, False),
        ((UNPAIRED, FOUND), False, False),
    ],
)
def test_new_records_explain_the_tail_and_unpaired_ones_leave_it_open(
    syncs: Sequence[OffsetSync], before: bool, after: bool
) -> None:
    at = Position(source_offset=9, target_offset=7, next_sequence=5, source_may_be_deleted=before)
    assert at.after(syncs).source_may_be_deleted is after


def test_behind_a_loss_no_leader_is_known() -> None:
    assert AT.lost_up_to(20) == Position(
        source_offset=20, target_offset=7, next_sequence=5, source_may_be_deleted=True
    )


def test_another_producer_counts_from_0_and_the_former_sequence_is_kept() -> None:
    assert AT.with_another_producer(40) == Position(
        source_offset=9, target_offset=7, next_sequence=0, leader_epoch=2, former_sequence=(40, 5)
    )
