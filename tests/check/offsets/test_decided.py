"""What was decided of extras, and the rows that ways back begin and end with: causes of a failover and a failback."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ledger.facts.syncs import OffsetSync, SyncCause
from ledger.offsets.first_unread import PlaceStatus
from ledger.offsets.links import RecordedFlow
from tests.support.group_logs import EAST, WEST, at, flow, place
from tests.support.histories import copied, lost, started, superseded, unpaired

STATUS = PlaceStatus
SETTLED = superseded(4, 4, 4, SyncCause.SETTLED)


def begun_at_the_cut(source_start: int, target_start: int) -> OffsetSync:
    return replace(started(source_start, target_start), cause=SyncCause.CUT)


def failed_over() -> list[RecordedFlow]:
    """East a0..a3 and the extras a4 a5; west a0'..a3' and its own b0 b1 b2, that go to east behind the extras."""
    return [flow(EAST, WEST, copied(0, 4, 0)), flow(WEST, EAST, begun_at_the_cut(4, 6), copied(4, 7, 6))]


@pytest.mark.parametrize(("committed", "offset"), [(2, 2), (4, 6), (5, 7), (7, 9)])
def test_behind_a_cut_only_the_way_back_is_unread_where_extras_stay_local(
    committed: int, offset: int
) -> None:
    found = place(failed_over(), at(committed), ends=(0, 9), kept_local=((4, 6),))
    assert found.offset == offset
    assert found.repeats == 0


def test_extras_of_which_nothing_is_decided_are_unread() -> None:
    found = place(failed_over(), at(5), ends=(0, 9))
    assert (found.offset, found.status, found.unread) == (4, STATUS.EXTRAS, ((4, 6), (7, 9)))
    assert place(failed_over(), at(5), ends=(0, 9), kept_local=((5, 6),)).unread == ((4, 5), (7, 9))


@pytest.mark.parametrize("cause", [SyncCause.KEPT_LOCAL, SyncCause.OVERTAKEN])
def test_what_the_flow_passed_by_decision_is_no_extra(cause: SyncCause) -> None:
    forward, back = failed_over()
    passed = flow(EAST, WEST, copied(0, 4, 0), replace(lost(4, 6, 7), cause=cause))
    assert place([passed, back], at(5), ends=(0, 9)).offset == 7
    assert place([forward, back], at(5), ends=(0, 9)).offset == 4


@pytest.mark.parametrize(
    "rows",
    [
        (unpaired(4, 4, 2),),
        (unpaired(4, 4, 2), SETTLED),
        (unpaired(4, 4, 1), unpaired(4, 5, 1), SETTLED),
        (unpaired(4, 4, 2), SETTLED, unpaired(4, 4, 2)),
    ],
    ids=["settled without the source", "to be read again", "in two stretches", "nothing could be paired"],
)
def test_what_was_settled_is_unread_until_it_is_paired(rows: Sequence[OffsetSync]) -> None:
    flows = [flow(EAST, WEST, copied(0, 4, 0), *rows)]
    assert place(flows, at(4, EAST), ends=(0, 6), is_to_west=True).offset == 4
    assert place(flows, at(6, EAST), ends=(0, 6), is_to_west=True).offset == 4
    assert place(flows, at(4), ends=(0, 6)).offset == 4
    assert place(flows, at(5), ends=(0, 6)).offset == 4


def test_what_was_settled_and_is_paired_since_has_its_place() -> None:
    flows = [flow(EAST, WEST, copied(0, 4, 0), unpaired(4, 4, 2), SETTLED, copied(4, 6, 4))]
    assert place(flows, at(5, EAST), ends=(0, 6), is_to_west=True).offset == 5
    assert place(flows, at(5), ends=(0, 6)).offset == 5
    assert place(flows, at(6), ends=(0, 6)).offset == 6
