"""Records there that no flow of the pair carries: a group that comes back reads those that came while it was away."""

import pytest

from ledger.facts.syncs import Absence, OffsetRange, SyncCause
from ledger.offsets.first_unread import Place, PlaceStatus
from ledger.offsets.translation import Commit
from tests.support.group_logs import EAST, NORTH, WEST, at, flow, place
from tests.support.histories import copied, superseded

STATUS = PlaceStatus
FORMER = Commit(offset=4, topic_id="former")
FAN_IN = [
    flow(EAST, WEST, copied(0, 1, 0), copied(1, 2, 2), copied(2, 3, 4)),
    flow(NORTH, WEST, copied(0, 1, 1), copied(1, 2, 3)),
]
"""West e0 n0 e1 n1 e2."""


def told(found: Place) -> tuple[int | None, PlaceStatus, tuple[OffsetRange, ...], tuple[OffsetRange, ...]]:
    """The place, and what it says of all that lies there."""
    return found.offset, found.status, found.unread, found.repeated


def from_east(there: Commit | None, here: int = 3, set_there: Commit | None = None, end: int = 5) -> Place:
    """Where a group of east continues at west."""
    return place(FAN_IN, at(here, EAST), there=there, set_there=set_there, ends=(0, end), is_to_west=True)


def test_who_comes_back_does_not_pass_what_others_brought_meanwhile() -> None:
    """A group that left west behind n0 has read e1 and e2 at east: it goes on with n1, and reads e2 again."""
    left = at(2, WEST)
    found = place(FAN_IN, at(3, EAST), there=left, moved=(left, 1), ends=(0, 5), is_to_west=True)
    assert told(found) == (3, STATUS.OTHERS, ((3, 4),), ((4, 5),))
    assert found.others == ((3, 4),)
    found = place(FAN_IN, at(2, EAST), there=left, moved=(left, 1), ends=(0, 5), is_to_west=True)
    assert told(found) == (3, STATUS.OTHERS, ((3, 5),), ())


def test_what_others_had_brought_before_it_left_is_read() -> None:
    assert told(from_east(at(4, WEST))) == (5, STATUS.AT_END, (), ())
    assert told(from_east(at(4, WEST), here=0)) == (
        0,
        STATUS.EXACT,
        ((0, 1), (2, 3), (4, 5)),
        ((1, 2), (3, 4)),
    )
    assert from_east(at(4, WEST), here=0).others == ((1, 2), (3, 4))


def test_who_was_never_there_does_not_wait_for_others() -> None:
    found = from_east(None)
    assert told(found) == (5, STATUS.AT_END, (), ())
    found = from_east(None, here=0)
    assert (told(found), found.others) == ((0, STATUS.EXACT, ((0, 1), (2, 3), (4, 5)), ()), ((1, 2), (3, 4)))


def test_what_applications_write_there_is_of_others_too() -> None:
    found = from_east(at(5, WEST), end=8)
    assert told(found) == (5, STATUS.OTHERS, ((5, 8),), ())
    assert from_east(None, end=8).others == ((5, 8),)


def test_a_commit_that_has_vanished_counts_as_it_was_last() -> None:
    gone = Commit(offset=2, topic_id=WEST.topic_id, absence=Absence.GONE)
    assert told(from_east(gone)) == told(from_east(at(2, WEST)))


@pytest.mark.parametrize(("made_after_ms", "expected"), [(None, 3), (10_000_000, 4)])
def test_a_commit_on_records_that_the_log_has_lost_counts_up_to_there(
    made_after_ms: int | None, expected: int
) -> None:
    """West lost n1 and e2 once, and has n1' n2 there by now."""
    lost = superseded(1, 2, 3, SyncCause.TARGET_TRUNCATED)
    north = flow(NORTH, WEST, copied(0, 1, 1), copied(1, 2, 3), lost, copied(1, 3, 3))
    east = flow(EAST, WEST, copied(0, 1, 0), copied(1, 2, 2))
    there = Commit(offset=4, topic_id=WEST.topic_id, made_after_ms=made_after_ms)
    found = place([east, north], at(2, EAST), there=there, ends=(0, 5), is_to_west=True)
    assert told(found) == (expected, STATUS.OTHERS, ((expected, 5),), ())


def test_what_a_recorded_move_has_set_there_counts_when_nobody_has_seen_a_commit() -> None:
    assert told(from_east(None, set_there=at(2, WEST))) == (3, STATUS.OTHERS, ((3, 4),), ((4, 5),))
    assert told(from_east(at(4, WEST), set_there=at(2, WEST))) == (5, STATUS.AT_END, (), ())


def test_what_the_last_move_left_there_counts_when_nobody_has_seen_a_commit() -> None:
    found = place(FAN_IN, at(3, EAST), moved=(at(2, WEST), 1), ends=(0, 5), is_to_west=True)
    assert told(found) == (3, STATUS.OTHERS, ((3, 4),), ((4, 5),))


@pytest.mark.parametrize(("there", "set_there"), [(FORMER, None), (None, FORMER)])
def test_of_a_log_that_took_the_place_of_one_that_it_read_it_has_read_nothing_of_others(
    there: Commit | None, set_there: Commit | None
) -> None:
    found = from_east(there, set_there=set_there)
    assert told(found) == (1, STATUS.OTHERS, ((1, 2), (3, 4)), ((2, 3), (4, 5)))


def test_of_a_partition_without_a_commit_who_has_read_the_topic_there_has_read_nothing_of_others() -> None:
    found = place(FAN_IN, at(3, EAST), has_been_there=True, ends=(0, 5), is_to_west=True)
    assert told(found) == (1, STATUS.OTHERS, ((1, 2), (3, 4)), ((2, 3), (4, 5)))


def test_who_was_put_back_may_have_passed_copies_behind_the_maps() -> None:
    """West [5, 7) may be e3 and e4: they are not recorded, and the group wants to read them again."""
    found = place(FAN_IN, at(3, EAST), there=at(7, WEST), highest_seen=5, ends=(0, 9), is_to_west=True)
    assert told(found) == (5, STATUS.OTHERS, ((5, 9),), ())
    found = place(FAN_IN, at(2, EAST), there=at(3, WEST), highest_seen=5, ends=(0, 5), is_to_west=True)
    assert told(found) == (3, STATUS.OTHERS, ((3, 5),), ())


def test_what_others_brought_may_have_expired_unread() -> None:
    found = place(FAN_IN, at(3, EAST), there=at(2, WEST), ends=(4, 5), is_to_west=True)
    assert (told(found), found.expired) == ((5, STATUS.EXPIRED_ON_TARGET, (), ()), ((3, 4),))


def test_where_records_come_back_others_are_those_that_flows_have_brought() -> None:
    """East a0 n0 n1 b0' a1: of what nobody claims there it is waited for as for extras."""
    flows = [
        flow(WEST, EAST, copied(0, 1, 3)),
        flow(NORTH, EAST, copied(0, 2, 1)),
        flow(EAST, WEST, copied(0, 1, 1)),
    ]
    assert told(place(flows, at(2), there=at(2, EAST), ends=(0, 5))) == (
        2,
        STATUS.OTHERS,
        ((2, 3), (4, 5)),
        ((3, 4),),
    )
    assert told(place(flows, at(2), there=at(3, EAST), ends=(0, 5))) == (4, STATUS.EXTRAS, ((4, 5),), ())


def test_what_a_chain_relays_is_of_the_pair_and_what_its_middle_wrote_of_others() -> None:
    """North e0 n0 e1, all of it at west."""
    flows = [
        flow(EAST, NORTH, copied(0, 1, 0), copied(1, 2, 2)),
        flow(NORTH, WEST, copied(0, 3, 0)),
    ]
    relayed = [(NORTH, WEST)]
    found = place(flows, at(2, EAST), there=at(1), ends=(0, 3), relayed=relayed, is_to_west=True)
    assert told(found) == (1, STATUS.OTHERS, ((1, 2),), ((2, 3),))
    found = place(flows, at(2, EAST), ends=(0, 3), relayed=relayed, is_to_west=True)
    assert told(found) == (3, STATUS.AT_END, (), ())


def test_of_one_origin_what_one_side_wrote_is_of_others_there() -> None:
    """North n0 n1; west n0' w0 n1'."""
    flows = [
        flow(NORTH, EAST, copied(0, 2, 0)),
        flow(NORTH, WEST, copied(0, 1, 0), copied(1, 2, 2)),
    ]
    found = place(flows, at(2, EAST), there=at(1), ends=(0, 3), is_to_west=True)
    assert told(found) == (1, STATUS.OTHERS, ((1, 2),), ((2, 3),))
    found = place(flows, at(2, EAST), there=at(2), ends=(0, 3), is_to_west=True)
    assert told(found) == (3, STATUS.AT_END, (), ())


def test_what_flows_bring_to_both_sides_is_not_of_others() -> None:
    """A relay from west brings on what north has brought there: nothing there is of others."""
    flows = [flow(NORTH, EAST, copied(0, 2, 1)), flow(EAST, WEST, copied(0, 3, 0))]
    found = place(flows, at(1), there=at(1, EAST), ends=(0, 3), relayed=[(EAST, WEST)])
    assert (told(found), found.others) == ((1, STATUS.EXACT, ((1, 3),), ()), ())
