"""What nobody can place, by each route: rows in doubt, copies out of the map, unrecorded and unpaired ones."""

from dataclasses import replace

import pytest

from ledger.facts.syncs import Gap, GapCause, SyncCause, TopicPartition
from ledger.offsets.first_unread import PlaceStatus
from ledger.offsets.links import RecordedFlow
from ledger.offsets.translation import SeenEnd
from tests.support.group_logs import EAST, LONG_AFTER_MS, NORTH, WEST, at, flow, of_epoch, place
from tests.support.histories import copied, started, superseded, unpaired

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
    assert place(flows, at(3)).status is PlaceStatus.UNPLACED


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
    assert place(flows, at(2, EAST), is_to_west=True).unread == ((2, 4),)


def test_what_may_be_lost_at_the_beginning_of_a_chain_was_not_read_at_its_end() -> None:
    flows = [TO_NORTH, TO_WEST, finder(EAST, 2)]
    assert place(flows, at(4), there=at(9, EAST)).offset == 2
    assert place(flows[:2], at(4), there=at(9, EAST)).offset == 9
    assert place([TO_NORTH, TO_WEST, finder(NORTH, 2)], at(4), there=at(9, EAST)).offset == 2


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
