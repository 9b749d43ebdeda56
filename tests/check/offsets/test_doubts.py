"""What nobody can place, what was decided, and records of others: worked cases of groups that move."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ledger.facts.syncs import Absence, Gap, GapCause, OffsetRange, OffsetSync, SyncCause, TopicPartition
from ledger.offsets.statuses import TranslationStatus
from tests.support.algebra.first_unread import Place
from tests.support.algebra.links import RecordedFlow
from tests.support.algebra.translation import Commit, SeenEnd
from tests.support.group_logs import EAST, LONG_AFTER_MS, NORTH, WEST, at, flow, of_epoch, place
from tests.support.histories import copied, lost, started, superseded, unpaired

# -- In doubt --------------------------------------------------------------------------------------

SOUTH = TopicPartition("orders", "south-id", 0)
RESYNC = superseded(1, 4, 4)


def finder(log: TopicPartition, end: int) -> RecordedFlow:
    """A flow that reads a log and has found that it lost all from an offset on."""
    return flow(log, SOUTH, copied(0, 9, 0), superseded(end, 9, 9, SyncCause.SOURCE_TRUNCATED))


def gap(start: int, end: int) -> Gap:
    return Gap(start, end, GapCause.MIRROR_WRITE)


def test_a_commit_of_the_epoch_that_began_with_a_lost_end_is_not_capped() -> None:
    rows = (
        of_epoch(3, copied(0, 5, 0)),
        of_epoch(3, superseded(3, 5, 5, SyncCause.SOURCE_TRUNCATED)),
        of_epoch(4, copied(3, 8, 5)),
    )
    commit = replace(at(7, leader_epoch=4), made_after_ms=None)
    assert place([flow(WEST, EAST, *rows)], commit).offset == 9


def test_recorders_may_have_seen_more_of_a_leader_epoch_than_was_copied() -> None:
    """West reached 7 in epoch 3, of which flows had copied 3; epoch 4 began there."""
    flows = [flow(WEST, EAST, of_epoch(3, copied(0, 3, 0)), of_epoch(4, copied(3, 8, 3)))]
    commit = replace(at(6), made_after_ms=None)
    assert place(flows, commit).offset == 6
    assert place(flows, commit, seen_here=(SeenEnd(3, 7),)).offset == 3


def test_claims_in_doubt_are_no_claims() -> None:
    flows = [flow(EAST, WEST, copied(0, 4, 0)), flow(NORTH, EAST, copied(0, 5, 4)), finder(EAST, 6)]
    assert place(flows, at(4), ends=(0, 9)).unread == ((6, 9),)


def test_copies_of_what_may_be_lost_here_are_unread() -> None:
    flows = [flow(WEST, EAST, copied(0, 6, 0)), finder(WEST, 3)]
    assert place(flows, at(3)).unread == ((3, 6),)
    assert place(flows, at(3)).status is TranslationStatus.UNPLACED


def test_old_copies_where_a_log_lost_its_end_are_unread_or_gone() -> None:
    rows = (copied(0, 4, 0), RESYNC)
    assert place([flow(WEST, EAST, *rows), finder(EAST, 3)], at(4)).unread == ((3, 4),)
    lost = superseded(1, 1, 3, SyncCause.TARGET_TRUNCATED)
    assert place([flow(WEST, EAST, *rows, lost)], at(2)).unread == ((2, 3),)


def test_old_copies_of_an_earlier_leader_epoch_are_of_others_than_lie_there_now() -> None:
    """West lost all from 2 while its records were to be copied again; of the new ones east has lost the second."""
    rows = (
        of_epoch(0, copied(0, 6, 0)),
        superseded(2, 6, 6),
        of_epoch(2, copied(2, 4, 6)),
        superseded(3, 4, 7, SyncCause.TARGET_TRUNCATED),
    )
    found = place([flow(WEST, EAST, *rows)], at(7, EAST), ends=(0, 6), is_to_west=True)
    assert (found.offset, found.unread) == (3, ((3, 6),))


def test_who_has_not_found_a_lost_end_proves_nothing() -> None:
    stale, reader = flow(EAST, WEST, copied(0, 6, 0)), flow(WEST, EAST, copied(0, 6, 6, gap(0, 6)))
    assert place([stale, reader, finder(WEST, 2)], at(5), ends=(0, 6)).offset == 2


def test_mirrors_records_prove_nothing_where_several_flows_write() -> None:
    cut = superseded(2, 4, 6, SyncCause.SOURCE_TRUNCATED)
    reader = flow(WEST, EAST, cut, copied(2, 6, 6, gap(2, 6)), at_ms=[9, LONG_AFTER_MS])
    flows = [flow(EAST, WEST, copied(0, 6, 0)), reader]
    assert place(flows, at(5), ends=(0, 6)).offset == 5
    assert place(flows, at(5), ends=(0, 6), ways=[(NORTH, WEST)]).offset == 2


TO_NORTH, TO_WEST = flow(EAST, NORTH, copied(0, 4, 0)), flow(NORTH, WEST, copied(0, 4, 0))


@pytest.mark.parametrize(
    "flows",
    [
        [TO_NORTH, TO_WEST],
        [flow(EAST, NORTH, copied(0, 2, 0)), TO_WEST],  # the first flow has not recorded all
        [TO_NORTH, TO_WEST, finder(EAST, 2)],
        [TO_NORTH, TO_WEST, finder(NORTH, 2)],
        [flow(EAST, NORTH, copied(0, 4, 0), RESYNC), TO_WEST],
        [flow(EAST, NORTH, copied(0, 4, 0), RESYNC, copied(1, 4, 4)), TO_WEST],
        [TO_NORTH, flow(NORTH, WEST, copied(0, 4, 0), RESYNC)],
        [TO_NORTH, flow(NORTH, WEST, copied(0, 2, 0), unpaired(2, 2, 2))],
        [flow(EAST, NORTH, copied(0, 2, 0), unpaired(2, 2, 2)), TO_WEST],
        [flow(EAST, NORTH, copied(0, 2, 0), unpaired(2, 2, 2)), flow(NORTH, WEST, copied(0, 4, 0), RESYNC)],
    ],
)
def test_in_a_chain_what_was_brought_is_unread_until_it_is_known_to_be_read(
    flows: list[RecordedFlow],
) -> None:
    """Whatever is known of the chain: of east's first two records alone a group at east has read the copies."""
    relayed = [(NORTH, WEST)]
    assert place(flows, at(2, EAST), is_to_west=True, relayed=relayed).unread == ((2, 4),)


def test_what_may_be_lost_at_the_beginning_of_a_chain_was_not_read_at_its_end() -> None:
    flows, relayed = [TO_NORTH, TO_WEST], [(NORTH, WEST)]
    for found, offset in (([finder(EAST, 2)], 2), ([], 9), ([finder(NORTH, 2)], 2)):
        assert place([*flows, *found], at(4), there=at(9, EAST), relayed=relayed).offset == offset


@pytest.mark.parametrize(
    "flows",
    [
        [flow(NORTH, EAST, copied(0, 4, 0)), TO_WEST],
        [flow(NORTH, EAST, copied(0, 4, 0)), TO_WEST, finder(NORTH, 2)],
        [flow(NORTH, EAST, copied(0, 4, 0), RESYNC), TO_WEST],
        [flow(NORTH, EAST, copied(0, 4, 0)), flow(NORTH, WEST, copied(0, 4, 0), RESYNC)],
        [flow(NORTH, EAST, copied(0, 2, 0), unpaired(2, 2, 2)), TO_WEST],
        [flow(NORTH, EAST, copied(0, 4, 0)), flow(NORTH, WEST, copied(0, 2, 0))],
    ],
)
def test_of_one_origin_what_came_there_is_unread_until_it_is_known_to_be_read(
    flows: list[RecordedFlow],
) -> None:
    assert place(flows, at(2)).unread == ((2, 4),)


def test_unpaired_records_of_one_origin_here_count_from_where_their_flow_stood() -> None:
    flows = [
        flow(NORTH, EAST, copied(0, 5, 0)),
        flow(NORTH, WEST, started(0, 0), copied(0, 2, 0), unpaired(2, 2, 2)),
    ]
    assert place(flows, at(2), there=at(5, EAST)).offset == 2
    assert place(flows, at(4), there=at(5, EAST)).offset == 5


def test_what_other_flows_brought_here_is_not_ahead() -> None:
    flows = [
        flow(WEST, EAST, copied(0, 4, 0)),
        flow(EAST, WEST, copied(0, 6, 4, gap(0, 4))),
        flow(NORTH, WEST, copied(0, 1, 6)),
    ]
    assert place(flows, at(9)).ahead == ((7, 9),)


# -- Decided ---------------------------------------------------------------------------------------

STATUS = TranslationStatus
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


@pytest.mark.parametrize("cause", [SyncCause.SKIPPED, SyncCause.OVERTAKEN])
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


# -- Of others -------------------------------------------------------------------------------------

FORMER = Commit(offset=4, topic_id="former")
FAN_IN = [
    flow(EAST, WEST, copied(0, 1, 0), copied(1, 2, 2), copied(2, 3, 4)),
    flow(NORTH, WEST, copied(0, 1, 1), copied(1, 2, 3)),
]
"""West e0 n0 e1 n1 e2."""


def told(
    found: Place,
) -> tuple[int | None, TranslationStatus, tuple[OffsetRange, ...], tuple[OffsetRange, ...]]:
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
