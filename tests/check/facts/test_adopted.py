"""Which records of a partition are adopted copies, and which copies of a topic that is gone go back to it."""

from dataclasses import replace

import pytest

from ledger.facts.history import FormerCopy, adopted_ranges, not_returning, returning_ranges
from ledger.facts.syncs import (
    OffsetSync,
    Share,
    SyncCause,
    SyncKind,
    TopicPartition,
    from_offset,
    joined,
    overlapping,
    share_of,
    without,
)
from tests.support.offset_syncs import ALSO_HELD, HELD, LOST, sync

# -- Adopted copies --------------------------------------------------------------------------------


def adopted(source: tuple[int, int], target_start: int, *, target: TopicPartition = HELD) -> OffsetSync:
    return sync(source, target_start, target=target, kind=SyncKind.ADOPTED)


def superseded(cause: SyncCause, *, source_start: int = 0, target_end: int = 0) -> OffsetSync:
    row = sync((source_start, source_start + 1), target_end, kind=SyncKind.SUPERSEDED)
    return replace(row, cause=cause, target_start=target_end, target_end=target_end, records=0)


def ranges(*histories: list[OffsetSync]) -> tuple[tuple[int, int], ...]:
    return adopted_ranges(histories, held=HELD)


def test_only_adopted_rows_of_this_partition_and_incarnation_count() -> None:
    beside = replace(HELD, partition=1)
    others = [sync((0, 9), 0), adopted((0, 9), 0, target=beside), adopted((0, 9), 0, target=ALSO_HELD)]
    assert ranges(others) == ()
    assert ranges([*others, adopted((0, 9), 20)]) == ((20, 29),)


def test_what_several_flows_adopted_is_put_together_and_what_lies_between_stays_out() -> None:
    first = [adopted((0, 5), 10), adopted((5, 8), 15), adopted((8, 9), 30)]
    assert ranges(first, [adopted((0, 2), 18), adopted((2, 4), 0)]) == ((0, 2), (10, 20), (30, 31))


def test_a_row_of_gaps_alone_holds_nothing() -> None:
    assert ranges([replace(adopted((0, 5), 7), target_end=7)]) == ()


def test_copies_stay_copies_when_the_map_is_taken_back() -> None:
    for cause in (SyncCause.RESYNC, SyncCause.SOURCE_TRUNCATED, SyncCause.TARGET_RECREATED):
        assert ranges([adopted((0, 9), 20), superseded(cause, target_end=22)]) == ((20, 29),)


def test_from_where_the_target_went_back_anybody_may_have_written() -> None:
    went_back = superseded(SyncCause.TARGET_TRUNCATED, target_end=22)
    assert ranges([adopted((0, 9), 20), went_back]) == ((20, 22),)
    assert ranges([adopted((0, 9), 20), replace(went_back, target=ALSO_HELD)]) == ((20, 29),)
    assert ranges([went_back, adopted((0, 9), 20)]) == ((20, 29),), "adopted after that"
    assert ranges([adopted((0, 2), 20), went_back]) == ((20, 22),)
    assert ranges([adopted((0, 2), 22), went_back]) == ()


def test_a_flow_that_saw_its_source_go_back_counts_whenever_that_was() -> None:
    seen = replace(superseded(SyncCause.SOURCE_TRUNCATED, source_start=25), source=HELD, target=LOST)
    copies = [adopted((0, 9), 20), adopted((9, 10), 40)]
    assert ranges(copies, [seen]) == ranges([seen], copies) == ((20, 25),)
    assert ranges(copies, [replace(seen, source=ALSO_HELD)]) == ((20, 29), (40, 41))
    assert ranges(copies, [replace(seen, cause=SyncCause.RESYNC)]) == ((20, 29), (40, 41))


def test_what_returns_is_not_left_out() -> None:
    assert not_returning([(0, 5), (8, 12)], [(2, 3), (4, 9), (20, 22)]) == ((0, 2), (3, 4), (9, 12))


# -- Copies that go back ---------------------------------------------------------------------------

NOWHERE: frozenset[str] = frozenset()


def copied(*syncs: OffsetSync, cluster: str = "b") -> FormerCopy:
    return FormerCopy("orders", cluster, syncs)


def returning(*copies: FormerCopy, elsewhere: frozenset[str] = NOWHERE) -> tuple[tuple[int, int], ...]:
    return returning_ranges(copies, held=HELD, elsewhere=elsewhere)


def test_nothing_returns_where_nothing_was_copied() -> None:
    assert returning() == ()


def test_what_lies_together_returns_together_also_over_gaps_of_the_origin() -> None:
    first = sync((0, 10), 100, gaps=[(3, 5)])
    assert returning(copied(first, sync((10, 14), 108))) == ((100, 112),)


def test_records_of_others_between_do_not_return() -> None:
    assert returning(copied(sync((0, 10), 100), sync((10, 12), 115))) == ((100, 110), (115, 117))


def test_several_lost_incarnations_return_in_the_order_of_where_they_lie() -> None:
    older = TopicPartition("orders", "older", 0)
    assert returning(copied(sync((0, 5), 50)), copied(sync((0, 5), 10, origin=older))) == (
        *((10, 15), (50, 55)),
    )


def test_other_partitions_and_incarnations_of_the_holder_do_not_count() -> None:
    beside = TopicPartition("orders", "at-b", 1)
    assert returning(copied(sync((0, 5), 0, target=beside), sync((5, 9), 0, target=ALSO_HELD))) == ()


def test_what_cannot_be_paired_does_not_return() -> None:
    assert (
        returning(copied(sync((0, 5), 0, kind=SyncKind.UNPAIRED), sync((5, 5), 5, kind=SyncKind.STARTED)))
        == ()
    )


def test_what_comes_back_from_elsewhere_first_does_not_come_back_again() -> None:
    here = copied(sync((0, 10), 100), sync((12, 20), 110))
    there = copied(sync((2, 5), 0, target=ALSO_HELD), sync((8, 14), 3, target=ALSO_HELD), cluster="c")
    assert returning(here, there) == ((100, 118),)
    assert returning(here, there, elsewhere=frozenset({"c"})) == ((100, 102), (105, 108), (112, 118))
    assert returning(here, there, elsewhere=frozenset({"d"})) == ((100, 118),)


def test_what_elsewhere_holds_of_another_partition_takes_nothing_away() -> None:
    other = TopicPartition("orders", "lost", 1)
    there = copied(sync((0, 10), 0, origin=other, target=ALSO_HELD), cluster="c")
    assert returning(copied(sync((0, 10), 100)), there, elsewhere=frozenset({"c"})) == ((100, 110),)


# -- Ranges of offsets -----------------------------------------------------------------------------

RANGES = [(2, 5), (8, 9)]


@pytest.mark.parametrize("start", range(11))
@pytest.mark.parametrize("length", range(1, 9))
def test_a_share_is_what_counting_gives(start: int, length: int) -> None:
    inside = [any(a <= offset < b for a, b in RANGES) for offset in range(start, start + length)]
    expected = Share.ALL if all(inside) else Share.PART if any(inside) else Share.NONE
    assert share_of(RANGES, start, start + length) is expected


def test_what_touches_or_overlaps_is_one() -> None:
    assert list(joined([(0, 2), (2, 4), (3, 9), (4, 5), (10, 11)])) == [(0, 9), (10, 11)]
    assert list(joined([])) == []


def test_what_is_left_of_a_range() -> None:
    assert list(without((2, 9), [(0, 3), (4, 5), (5, 6), (8, 12)])) == [(3, 4), (6, 8)]
    assert list(without((2, 9), [])) == [(2, 9)]
    assert list(without((2, 9), [(0, 12)])) == []
    assert list(without((2, 9), [(10, 12)])) == [(2, 9)]


def test_what_reaches_beyond_an_offset() -> None:
    assert from_offset(RANGES, 4) == ((2, 5), (8, 9))
    assert from_offset(RANGES, 5) == ((8, 9),)
    assert from_offset(RANGES, 9) == ()


@pytest.mark.parametrize("start", range(11))
@pytest.mark.parametrize("length", range(1, 9))
def test_what_reaches_into_a_stretch_is_what_counting_gives(start: int, length: int) -> None:
    stretch = set(range(start, start + length))
    expected = [(a, b) for a, b in RANGES if stretch & set(range(a, b))]
    assert list(overlapping(RANGES, start, start + length)) == expected
