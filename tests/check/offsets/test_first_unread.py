"""Worked cases of the first unread record, and the order of its statuses. Letters: a of east, b of west, n of north."""

from dataclasses import replace

import pytest

from ledger.clock import MARGIN_MS
from ledger.facts.syncs import Absence, Gap, GapCause, OffsetSync, SyncCause, TopicPartition
from ledger.offsets.statuses import TranslationStatus
from ledger.store import catalog
from tests.support.algebra.first_unread import WITHOUT_OFFSET, Place
from tests.support.algebra.read import KnownGroup, KnownLog, Move, read_offsets_of
from tests.support.algebra.translation import Commit
from tests.support.group_logs import EAST, LONG_AFTER_MS, NORTH, WEST, at, flow, of_epoch, place
from tests.support.histories import adopted, copied, lost, started, superseded, unpaired

STATUS = TranslationStatus
QUERY = catalog.query("offset_translation")


def gap(start: int, end: int, cause: GapCause = GapCause.MIRROR_WRITE) -> Gap:
    return Gap(start, end, cause)


def told(found: Place) -> tuple[int | None, TranslationStatus]:
    return found.offset, found.status


# Both directions ---------------------------------------------------------------------------------

CROSSED = (
    flow(EAST, WEST, copied(0, 5, 2, gap(2, 5))),
    flow(WEST, EAST, copied(0, 5, 2, gap(2, 4))),
)
"""East a0 a1 b0' b1' b2'; west b0 b1 a0' a1' b2."""


def test_what_the_other_side_had_before_may_not_have_come_back_yet() -> None:
    """East a0 a1; west b0 a0' a1', b0 not copied yet: commit 0 at east is not west 1."""
    flows = [flow(EAST, WEST, copied(0, 2, 1)), flow(WEST, EAST, started(0, 2))]
    found = place(flows, at(0, EAST), ends=(0, 3), is_to_west=True)
    assert told(found) == (0, STATUS.EXTRAS)
    assert (found.unread, found.repeats) == (((0, 3),), 0)


def test_the_lowest_of_what_is_unread_and_what_is_repeated_for_it() -> None:
    """Commit 2 at east is not west 4: b0 and b1 are unread and lie before a0' and a1'."""
    found = place(CROSSED, at(2, EAST), ends=(0, 5), is_to_west=True)
    assert told(found) == (0, STATUS.EXACT)
    assert (found.unread, found.repeated) == (((0, 2), (4, 5)), ((2, 4),))


@pytest.mark.parametrize(
    ("committed", "offset", "repeated"),
    [(0, 0, ()), (1, 0, ((2, 3),)), (2, 0, ((2, 4),)), (3, 1, ((2, 4),)), (4, 4, ()), (5, 5, ())],
)
def test_what_was_read_here_is_read_by_both_maps(
    committed: int, offset: int, repeated: tuple[tuple[int, int], ...]
) -> None:
    found = place(CROSSED, at(committed), ends=(0, 5))
    assert (found.offset, found.repeated) == (offset, repeated)


# What a move says --------------------------------------------------------------------------------


def test_who_moved_and_read_nothing_goes_back_to_where_it_was() -> None:
    for left in range(6):
        there = at(left, EAST)
        arrived = place(CROSSED, there, ends=(0, 5), is_to_west=True).offset
        assert arrived is not None
        back = place(CROSSED, at(arrived), there=there, moved=(there, arrived), ends=(0, 5))
        assert back.offset == left


def test_without_a_recorded_move_what_was_read_there_is_repeated() -> None:
    found = place(CROSSED, at(0), there=at(2, EAST), ends=(0, 5))
    assert found.offset == 0


@pytest.mark.parametrize(
    ("committed", "highest_seen", "expected"),
    [
        (1, 1, (3, STATUS.EXACT)),  # it has gone on by one
        (1, 3, (0, STATUS.REWOUND)),  # it was further, and is back above where the move had brought it
        (3, 3, (4, STATUS.EXACT)),
    ],
)
def test_who_was_put_back_wants_to_read_again(
    committed: int, highest_seen: int, expected: tuple[int, TranslationStatus]
) -> None:
    there = at(2, EAST)
    found = place(
        CROSSED, at(committed), there=there, moved=(there, 0), highest_seen=highest_seen, ends=(0, 5)
    )
    assert told(found) == expected


def test_below_where_the_move_had_brought_it_the_commit_counts_alone() -> None:
    there = at(5, EAST)
    found = place(CROSSED, at(4), there=there, moved=(there, 5), highest_seen=4, ends=(0, 6))
    assert told(found) == (4, STATUS.REWOUND)
    assert found.unread == ((4, 6),)


def test_who_was_put_back_may_have_passed_copies_that_are_not_recorded() -> None:
    flows = [flow(EAST, WEST, copied(0, 4, 0))]
    there = at(6, EAST)
    assert place(flows, at(2), there=there, highest_seen=4, ends=(0, 6)).unread == ((2, 6),)
    assert place(flows, at(2), there=there, ends=(0, 6)).unread == ((2, 4),)


def test_a_commit_that_was_seen_before_a_move_counts_no_more() -> None:
    flows, there = [flow(EAST, WEST, copied(0, 9, 0))], at(3, EAST)
    for before in (at(8), at(1), None):
        found = place(flows, before, there=there, moved=(there, 3), is_seen=False)
        assert (found.offset, found.repeats) == (3, 0)


def test_a_move_from_no_commit_says_where_the_group_stands_and_that_it_had_read_nothing() -> None:
    flows = [flow(EAST, WEST, copied(0, 9, 0))]
    assert told(place(flows, at(8), moved=(None, 3), is_seen=False)) == (3, STATUS.EXACT)
    assert told(place(flows, at(2), moved=(None, 3), highest_seen=2)) == (2, STATUS.REWOUND)
    assert told(place(CROSSED, at(5), moved=(None, 0), ends=(0, 6))) == (5, STATUS.EXTRAS)


def test_a_move_to_a_former_topic_id_says_nothing() -> None:
    move = Move(left=at(2, EAST), arrived_at=6, here_topic_id="former")
    group = KnownGroup(here=at(4), there=at(2, EAST), move=move, highest_seen=4)
    found = read_offsets_of(group, KnownLog(topic_id="west-id"), KnownLog(topic_id="east-id"))
    assert (found.here_to, found.there_to, found.alone_to, found.is_rewound) == (4, 0, 2, False)


def test_a_group_may_be_rewound_where_it_had_left() -> None:
    flows = [flow(EAST, WEST, copied(0, 9, 0))]
    moved = (at(7, EAST), 0)
    assert place(flows, at(0), there=at(7, EAST), moved=moved).offset == 7
    assert place(flows, at(0), there=at(4, EAST), moved=moved).offset == 4


def test_a_move_of_another_life_says_nothing() -> None:
    flows = [flow(EAST, WEST, copied(0, 9, 0))]
    former = replace(at(7, EAST), topic_id="former")
    assert place(flows, at(0), there=former, moved=(former, 0)).offset == 0


# Extras ------------------------------------------------------------------------------------------

ONE_WAY = flow(EAST, WEST, copied(0, 4, 0))


@pytest.mark.parametrize(("last_there", "expected"), [(None, 4), (3, 4), (5, 5), (6, 6), (8, 8)])
def test_extras_are_unread_from_the_last_commit_there_on(last_there: int | None, expected: int) -> None:
    there = None if last_there is None else at(last_there, EAST)
    found = place([ONE_WAY], at(4), there=there, ends=(0, 6))
    assert found.offset == expected
    assert found.status is (STATUS.EXTRAS if expected < 6 else STATUS.AT_END)


def test_extras_that_were_read_are_repeated_for_what_lies_before_them() -> None:
    found = place([ONE_WAY], at(3), there=at(6, EAST), ends=(0, 7))
    assert (found.offset, found.unread, found.repeated) == (3, ((3, 4), (6, 7)), ((4, 6),))


def test_what_is_decided_to_stay_is_no_extra() -> None:
    assert place([ONE_WAY], at(4), ends=(0, 9), kept_local=[(4, 7)]).unread == ((7, 9),)


@pytest.mark.parametrize("cause", list(GapCause))
def test_below_the_end_of_the_map_all_is_decided(cause: GapCause) -> None:
    flows = [flow(EAST, WEST, copied(0, 6, 0, gap(4, 6, cause))), flow(WEST, EAST, unpaired(0, 4, 2))]
    found = place(flows[:1], at(4), ends=(0, 6))
    if cause is GapCause.MIRROR_WRITE:
        assert told(found) == (4, STATUS.UNPLACED)
    else:
        assert told(found) == (6, STATUS.AT_END)


@pytest.mark.parametrize("cause", [SyncCause.RETENTION, SyncCause.DELETED_RECORDS, SyncCause.SKIPPED])
def test_what_was_lost_or_skipped_is_decided(cause: SyncCause) -> None:
    row = replace(lost(4, 8, 4), cause=cause)
    assert told(place([flow(EAST, WEST, copied(0, 4, 0), row)], at(4), ends=(0, 8))) == (8, STATUS.AT_END)


def test_what_any_flow_claims_is_no_extra() -> None:
    flows = [
        ONE_WAY,
        flow(WEST, EAST, copied(0, 5, 4, gap(0, 4))),
        flow(NORTH, EAST, adopted(0, 2, 5), unpaired(2, 7, 1), replace(unpaired(2, 8, 2), records=0)),
    ]
    found = place(flows, at(5), ends=(0, 10))
    assert (found.unread, found.others) == (((8, 10),), ())
    assert place(flows, at(4), ends=(0, 8)).others == ((5, 8),)


def test_what_lies_there_is_of_others_where_nothing_is_copied_from_there() -> None:
    found = place([flow(WEST, EAST, copied(0, 2, 3))], at(1), ends=(0, 9))
    assert (found.offset, found.unread, found.others) == (4, ((4, 5),), ((5, 9),))


def test_what_flows_brought_there_is_to_come_where_the_flow_to_here_relays() -> None:
    """East a0 n0' n1' a1, of which only a0 has come to west: n0 is no other's record."""
    flows = [flow(NORTH, EAST, copied(0, 2, 1)), flow(EAST, WEST, copied(0, 1, 0))]
    found = place(flows, at(1), ends=(0, 4), relayed=[(EAST, WEST)])
    assert (told(found), found.unread, found.others) == ((1, STATUS.EXTRAS), ((1, 4),), ())
    found = place(flows, at(1), ends=(0, 4))
    assert (told(found), found.unread, found.others) == ((3, STATUS.EXTRAS), ((3, 4),), ())


def test_a_log_that_lost_its_end_holds_nothing_that_was_claimed_there() -> None:
    claims = flow(NORTH, EAST, copied(0, 5, 4), superseded(2, 5, 6, SyncCause.TARGET_TRUNCATED))
    assert place([ONE_WAY, claims], at(4), ends=(0, 9)).unread == ((6, 9),)


def test_what_a_flow_began_behind_is_decided_and_a_flow_that_has_not_begun_decides_nothing() -> None:
    late = flow(EAST, WEST, started(4, 0), copied(4, 6, 0))
    assert told(place([late], at(0), ends=(0, 6))) == (4, STATUS.EXACT)
    back = flow(WEST, EAST, copied(0, 2, 2))
    assert place([back], at(2), ends=(0, 4), ways=[(EAST, WEST)]).offset == 0
    assert place([back], at(2), ends=(0, 4)).offset == 4


def test_copies_of_a_life_here_that_is_over_come_back() -> None:
    """West was recreated; what it had written lies at east, and has come back up to 2."""
    former = TopicPartition("orders", "former", 0)
    flows = [
        flow(former, EAST, copied(0, 5, 0)),
        flow(EAST, WEST, copied(0, 2, 0)),
    ]
    found = place(flows, at(2), ends=(0, 5), earlier_incarnations=frozenset({"former"}))
    assert (found.unread, found.status) == (((2, 5),), STATUS.EXTRAS)


# Where nothing is unread ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("back", "last_there", "end"),
    [
        (copied(4, 6, 2, gap(4, 6)), None, 6),
        (copied(4, 6, 6), None, 8),
        (copied(4, 6, 6), 7, 8),
        (copied(4, 6, 2, gap(4, 6)), 9, 9),
    ],
)
def test_all_read_is_the_higher_of_both_ends_and_the_last_commit(
    back: OffsetSync, last_there: int | None, end: int
) -> None:
    flows = [flow(EAST, WEST, copied(0, 6, 0, gap(4, 6, GapCause.CONTROL))), flow(WEST, EAST, back)]
    there = None if last_there is None else at(last_there, EAST)
    assert told(place(flows, at(6), there=there)) == (end, STATUS.AT_END)


def test_read_here_and_not_there_yet_is_ahead() -> None:
    flows = [ONE_WAY, flow(WEST, EAST, copied(0, 5, 4, gap(0, 4)))]
    found = place(flows, at(8), ends=(0, 5))
    assert told(found) == (5, STATUS.AHEAD)
    assert found.ahead == ((5, 8),)


def test_what_lies_below_the_log_start_has_expired() -> None:
    found = place([flow(EAST, WEST, copied(0, 9, 0))], at(2), ends=(5, 9))
    assert told(found) == (5, STATUS.EXPIRED_ON_TARGET)
    assert (found.expired, found.unread) == (((2, 5),), ((5, 9),))
    assert told(place([flow(EAST, WEST, copied(0, 9, 0))], at(5), ends=(5, 9))) == (5, STATUS.EXACT)


def test_no_place_is_below_the_log_start() -> None:
    assert told(place([flow(WEST, EAST, copied(0, 4, 0))], at(4), ends=(6, 6))) == (6, STATUS.AT_END)
    unplaced = [flow(EAST, WEST, started(2, 0), unpaired(2, 0, 3))]
    assert place(unplaced, at(0), ends=(6, 6)).offset == 6


# What nobody can place -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "expected"), [(4, (4, STATUS.UNPLACED)), (5, (4, STATUS.UNPLACED)), (7, (6, STATUS.AT_END))]
)
def test_unpaired_records_here_count_from_where_their_flow_stood(
    committed: int, expected: tuple[int, TranslationStatus]
) -> None:
    """They are of originals that east has lost, as far as it is known; behind lies nothing."""
    flows = [
        flow(EAST, WEST, copied(0, 4, 0), unpaired(4, 4, 3), lost(4, 6, 7)),
    ]
    assert told(place(flows, at(committed), ends=(0, 6))) == expected


@pytest.mark.parametrize(("committed", "offset"), [(4, 4), (5, 4), (6, 7), (7, 8)])
def test_unpaired_records_there_are_unread_until_the_map_goes_on(committed: int, offset: int) -> None:
    flows = [flow(WEST, EAST, copied(0, 4, 0), unpaired(4, 4, 3), lost(4, 6, 7), copied(6, 8, 7))]
    found = place(flows, at(committed))
    assert found.offset == (offset if committed < 7 else 8)


def test_what_nobody_can_place_was_read_there_by_who_left_behind_it() -> None:
    for flows in (
        [flow(WEST, EAST, copied(0, 4, 0), unpaired(4, 4, 3))],
        [flow(EAST, WEST, copied(0, 4, 0), unpaired(4, 4, 3))],
    ):
        there = at(7, EAST)
        assert place(flows, at(4), there=there, moved=(there, 4), ends=(0, 7)).offset == 7
        assert place(flows, at(4), there=there, ends=(0, 7)).offset == 4


def test_read_copies_that_are_to_be_made_again_are_no_extras() -> None:
    flows = [flow(EAST, WEST, copied(0, 5, 0), superseded(1, 5, 5))]
    assert told(place(flows, at(5), ends=(0, 5))) == (5, STATUS.AT_END)
    assert place(flows, at(3), ends=(0, 6)).unread == ((3, 6),)


def test_copies_that_are_to_be_made_again_are_unread_until_they_are() -> None:
    resync = superseded(1, 5, 5)
    flows = [flow(WEST, EAST, copied(0, 5, 0), resync)]
    assert told(place(flows, at(2), ends=(0, 5))) == (2, STATUS.EXACT)
    again = [flow(WEST, EAST, copied(0, 5, 0), resync, copied(1, 4, 5))]
    assert place(again, at(2), ends=(0, 8)).unread == ((4, 5), (6, 8))


def test_unpaired_records_stay_unread_when_their_place_is_to_be_copied_again() -> None:
    flows = [flow(WEST, EAST, copied(0, 2, 0), unpaired(2, 2, 3), superseded(1, 2, 5))]
    assert told(place(flows, at(1), ends=(0, 5))) == (1, STATUS.EXACT)
    assert place(flows, at(2), ends=(0, 5)).unread == ((2, 5),)


def test_what_was_taken_back_here_is_passed() -> None:
    cut = superseded(2, 5, 5, SyncCause.SOURCE_TRUNCATED)
    assert place([flow(WEST, EAST, copied(0, 5, 0), cut)], at(2), ends=(0, 5)).offset == 5


def test_behind_the_end_of_one_map_others_ends_prove_nothing() -> None:
    """West to east is recorded up to 2, north to east up to 9: what lies between may have come from west."""
    flows = [
        flow(WEST, EAST, copied(0, 2, 0)),
        flow(NORTH, EAST, copied(0, 2, 7)),
        flow(NORTH, WEST, copied(0, 2, 2)),
    ]
    assert told(place(flows, at(4), ends=(0, 9))) == (2, STATUS.UNPLACED)


# Lost ends -----------------------------------------------------------------------------------------


def test_a_commit_does_not_reach_beyond_a_later_leader_epoch() -> None:
    rows = (of_epoch(3, copied(0, 5, 0)), of_epoch(4, copied(5, 9, 5)))
    flows = [flow(WEST, EAST, *rows)]
    assert told(place(flows, at(7, leader_epoch=3), ends=(0, 9))) == (5, STATUS.TRUNCATED)
    assert told(place(flows, at(7, leader_epoch=4), ends=(0, 9))) == (7, STATUS.EXACT)


@pytest.mark.parametrize(
    ("commit", "offset"),
    [
        (at(7), 7),
        (replace(at(7), made_after_ms=None), 4),
        (replace(at(7), made_after_ms=1 + MARGIN_MS), 4),
        (replace(at(7), made_after_ms=2 + MARGIN_MS), 7),
    ],
)
def test_a_commit_may_be_older_than_what_flows_to_here_found(commit: Commit, offset: int) -> None:
    """West lost all from 4: the flow that writes there has found it, none reads there."""
    cut = superseded(4, 6, 4, SyncCause.TARGET_TRUNCATED)
    again = copied(4, 9, 4)
    flows = [flow(EAST, WEST, copied(0, 6, 0), cut, again, at_ms=[0, 1, LONG_AFTER_MS])]
    assert place(flows, commit, ends=(0, 9)).offset == offset


def test_what_a_group_had_read_there_is_capped_as_well() -> None:
    cut = superseded(3, 6, 6, SyncCause.SOURCE_TRUNCATED)
    flows = [flow(EAST, WEST, copied(0, 6, 0), cut, copied(3, 8, 6), at_ms=[0, 1, LONG_AFTER_MS])]
    there = replace(at(6, EAST), made_after_ms=None)
    assert place(flows, at(1), there=there, moved=(there, 1), ends=(0, 8)).offset == 3
    assert place(flows, at(1), there=at(6, EAST), moved=(at(6, EAST), 1), ends=(0, 8)).offset == 6


def test_what_one_flow_found_of_a_log_holds_for_those_that_do_not_know_it() -> None:
    """East lost all from 2, and something else lies there: the flow that reads east has not looked since."""
    stale = flow(EAST, WEST, copied(0, 6, 0))
    finder = flow(NORTH, EAST, copied(0, 2, 4), superseded(0, 2, 2, SyncCause.TARGET_TRUNCATED), at_ms=[0, 9])
    assert told(place([stale], at(6), ends=(0, 5))) == (6, STATUS.AT_END)
    assert told(place([stale, finder], at(6), ends=(0, 5))) == (2, STATUS.UNPLACED)


def test_a_later_leader_epoch_proves_that_rows_are_younger() -> None:
    rows = (of_epoch(1, copied(0, 2, 0)), of_epoch(2, copied(2, 6, 2)))
    finder = flow(NORTH, EAST, superseded(0, 0, 2, SyncCause.TARGET_TRUNCATED), at_ms=[9])
    assert told(place([flow(EAST, WEST, *rows), finder], at(6), ends=(0, 6))) == (6, STATUS.AT_END)


def test_a_lost_end_here_makes_what_was_copied_there_unknown() -> None:
    stale = flow(EAST, WEST, copied(0, 6, 0))
    reader = flow(WEST, EAST, superseded(2, 4, 6, SyncCause.SOURCE_TRUNCATED), at_ms=[9])
    assert place([stale, reader], at(5), ends=(0, 6)).offset == 2
    seen = copied(2, 6, 6, gap(2, 6))
    reader = flow(WEST, EAST, superseded(2, 4, 6, SyncCause.SOURCE_TRUNCATED), seen, at_ms=[9, LONG_AFTER_MS])
    assert place([stale, reader], at(5), ends=(0, 6)).offset == 5


@pytest.mark.parametrize(("committed", "offset"), [(3, 3), (5, 6), (6, 7), (8, 9)])
def test_what_was_lost_there_and_came_back_is_unread_where_it_came_back_to(
    committed: int, offset: int
) -> None:
    """East had a0..a5 and two that nobody had recorded, lost all from a4 on, took x4, and got them back at 5..8."""
    lost_end = superseded(4, 6, 6, SyncCause.RETURNING)
    forward = flow(EAST, WEST, copied(0, 6, 0), lost_end, unpaired(4, 6, 2))
    back = flow(WEST, EAST, started(4, 5), copied(4, 8, 5))
    found = place([forward, back], at(committed), ends=(0, 9), kept_local=[(4, 5)])
    assert (found.offset, found.repeats) == (offset, 0)


# Other routes --------------------------------------------------------------------------------------


def test_a_chain_is_a_map() -> None:
    """East a0..a5; north n0 a0' a1' a2' a3'; west a1'' a2'' by a flow that left a0' out."""
    flows = [
        flow(EAST, NORTH, copied(0, 4, 1)),
        flow(NORTH, WEST, copied(0, 4, 0, gap(0, 2, GapCause.FILTERED))),
    ]
    relayed = [(NORTH, WEST)]
    assert told(place(flows, at(0), ends=(0, 6), relayed=relayed)) == (1, STATUS.EXACT)
    assert told(place(flows, at(1), ends=(0, 6), relayed=relayed)) == (2, STATUS.EXACT)
    found = place(flows, at(2), ends=(0, 6), relayed=relayed)
    assert told(found) == (3, STATUS.EXTRAS)
    assert found.unread == ((3, 6),)
    assert place(flows, at(2, EAST), is_to_west=True, relayed=relayed).offset == 1


def test_a_flow_that_does_not_relay_makes_no_chain() -> None:
    """Whether it has left out what the first flow copied, or has not read it yet."""
    for left_out in (copied(0, 4, 0, gap(0, 4)), started(0, 0)):
        flows = [flow(EAST, NORTH, copied(0, 4, 0)), flow(NORTH, WEST, left_out)]
        assert told(place(flows, at(2), ends=(0, 4))) == (None, STATUS.NO_MAP)


def test_in_a_ring_copies_that_are_not_recorded_are_unread_whoever_has_seen_them() -> None:
    """East e0..e9; west e0'..e6' recorded, e7' e8' e9' not, and the flow from there to north has read them."""
    ring = [
        flow(EAST, WEST, copied(0, 7, 0)),
        flow(WEST, NORTH, copied(0, 10, 0, gap(0, 10))),
        flow(NORTH, EAST, started(0, 0)),
    ]
    for flows in (ring, ring[:2]):
        found = place(flows, at(7, EAST), ends=(0, 10), is_to_west=True)
        assert told(found) == (7, STATUS.UNPLACED)
        assert found.unread == ((7, 10),)


def test_a_chain_counts_where_no_flow_goes_there_directly() -> None:
    direct = flow(EAST, WEST, copied(0, 6, 0))
    chain = [flow(EAST, NORTH, copied(0, 4, 0)), flow(NORTH, WEST, copied(0, 2, 6))]
    assert place([direct, *chain], at(6), ends=(0, 6)).offset == 6


def test_records_of_one_origin_pair_through_it() -> None:
    """North n0..n5; east n0' a n1' n2' n3'; west b n1'' n2''."""
    flows = [
        flow(NORTH, EAST, copied(0, 1, 0), copied(1, 4, 2)),
        flow(NORTH, WEST, started(1, 1), copied(1, 3, 1)),
    ]
    assert told(place(flows, at(1), ends=(0, 5))) == (2, STATUS.EXACT)
    assert told(place(flows, at(3), ends=(0, 5))) == (4, STATUS.EXTRAS)
    assert place(flows, at(3), there=at(5, EAST), ends=(0, 5)).offset == 5
    assert place(flows, at(3), ends=(0, 5)).others == ()
    back = place(flows, at(5, EAST), is_to_west=True)
    assert told(back) == (3, STATUS.AHEAD)
    assert back.ahead == ((4, 5),)


def test_prefixed_names_are_a_pair_of_their_own() -> None:
    prefixed = TopicPartition("east.orders", "prefixed-id", 0)
    flows = [flow(EAST, prefixed, copied(0, 4, 0)), flow(WEST, EAST, copied(0, 9, 4))]
    assert told(place(flows, at(2))) == (6, STATUS.EXACT)


# Statuses ------------------------------------------------------------------------------------------

FORMER = replace(WEST, topic_id="former")


def test_maps_of_lives_that_are_over_do_not_count() -> None:
    other = flow(EAST, FORMER, copied(0, 4, 0))
    lives = frozenset({"former"})
    assert told(place([other], at(2), earlier_incarnations=lives)) == (None, STATUS.OTHER_TARGET_INCARNATION)
    assert told(place([other], at(2))) == (None, STATUS.NO_MAP)
    assert told(place([], at(2), ways=[(EAST, WEST), (WEST, EAST)])) == (None, STATUS.NO_MAP)
    for topic_id in ("former", None):
        commit = replace(at(2), topic_id=topic_id)
        assert told(place([ONE_WAY], commit)) == (None, STATUS.OTHER_INCARNATION)


def test_a_last_commit_of_a_life_there_that_is_over_does_not_count() -> None:
    former = replace(at(6, EAST), topic_id="former")
    assert place([ONE_WAY], at(4), there=former, ends=(0, 6)).offset == 4


def test_without_a_commit_nothing_was_read() -> None:
    assert told(place([ONE_WAY], None, ends=(0, 6))) == (0, STATUS.NO_COMMIT)


def test_the_first_status_that_applies_in_their_order() -> None:
    """Each group has what later statuses are about, too, as far as one commit can."""
    rows = started(2, 10), of_epoch(1, copied(2, 8, 10))
    back = flow(WEST, EAST, *rows, of_epoch(2, copied(8, 9, 16)))
    losing = flow(WEST, EAST, *rows, of_epoch(2, lost(8, 9, 16)), of_epoch(2, copied(9, 10, 16)))
    both = [back, flow(EAST, WEST, copied(0, 2, 0))]
    loose = [back, flow(EAST, WEST, started(3, 9), unpaired(3, 12, 9))]
    gone = replace(at(9, leader_epoch=1), absence=Absence.GONE)
    moved_before, moved = (at(3, EAST), 20), (at(10, EAST), 20)
    plain = [back]
    answers = [
        place([], gone),
        place(plain, replace(gone, topic_id="former")),
        place([flow(FORMER, EAST, copied(0, 3, 0))], gone, earlier_incarnations=frozenset({"former"})),
        place(both, None, ends=(30, 30)),
        place(both, None, ends=(12, 30)),
        place(plain, replace(gone, offset=1), ends=(12, 30)),
        place([losing, *loose[1:]], replace(gone, offset=8), ends=(17, 30)),
        place(loose, gone, ends=(17, 30)),
        place(loose, gone, ends=(0, 30)),
        place(both, gone, ends=(0, 30)),
        place(plain, replace(gone, offset=30, leader_epoch=2), moved=moved_before, highest_seen=31),
        place(plain, replace(gone, offset=30, leader_epoch=2), moved=moved, highest_seen=31),
        place(plain, gone, moved=moved),
        place(plain, replace(gone, absence=Absence.HIDDEN), moved=moved),
        place(plain, replace(gone, absence=None), moved=moved),
        place(plain, at(8), moved=moved),
        place(plain, at(8)),
        place(plain, at(9)),
    ]
    assert [answer.status for answer in answers] == list(QUERY.statuses)
    assert {answer.status for answer in answers if answer.offset is None} == WITHOUT_OFFSET
