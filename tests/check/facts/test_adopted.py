"""Which records of a partition are adopted copies, and which may be an application's."""

from dataclasses import replace

from ledger.facts.history import adopted_ranges, not_returning
from ledger.facts.syncs import OffsetSync, SyncCause, SyncKind, TopicPartition
from tests.support.former_copies import ALSO_HELD, HELD, LOST, sync


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
