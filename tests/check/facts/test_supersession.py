"""What holds after supersession, and where to go on: cut rows and both kinds of truncation."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.facts.syncs import Gap, GapCause, OffsetSync, Position, RecordedSync, SyncKind, holding
from ledger.facts.truncation import CommonEnd, common_end, restart_after_target_truncation, sequence_at
from tests.support.offset_syncs import COPY, row


def at(source_offset: int, target_offset: int, next_sequence: int, leader_epoch: int | None) -> Position:
    return Position(
        source_offset=source_offset,
        target_offset=target_offset,
        next_sequence=next_sequence,
        leader_epoch=leader_epoch,
    )


def in_rounds(*syncs: OffsetSync) -> list[RecordedSync]:
    return [RecordedSync(1, number, sync) for number, sync in enumerate(syncs, 1)]


def ranges(syncs: list[OffsetSync]) -> list[tuple[int, int, int, int]]:
    return [(s.source_start, s.source_end, s.target_start, s.target_end) for s in syncs]


CONTROL = Gap(4, 6, GapCause.CONTROL)
FIRST = row((0, 10), (100, 108), 0, gaps=(CONTROL,))
SECOND = row((10, 20), (108, 118), 8)


@pytest.mark.parametrize(
    ("end", "expected", "gaps"),
    [
        (10, (0, 10, 100, 108), (CONTROL,)),
        (9, (0, 9, 100, 107), (CONTROL,)),
        (6, (0, 6, 100, 104), (CONTROL,)),
        (5, (0, 5, 100, 104), (Gap(4, 5, GapCause.CONTROL),)),
        (4, (0, 4, 100, 104), ()),
        (1, (0, 1, 100, 101), ()),
    ],
)
def test_a_row_that_lies_across_is_cut_with_its_gaps(
    end: int, expected: tuple[int, int, int, int], gaps: tuple[Gap, ...]
) -> None:
    [kept] = holding(in_rounds(FIRST, row((end, 10), (108, 108), 8, kind=SyncKind.SUPERSEDED)))
    assert (ranges([kept]), kept.gaps, kept.records) == ([expected], gaps, expected[3] - expected[2])


def test_later_rows_are_not_voided_and_rows_of_the_same_round_are() -> None:
    superseded = row((5, 20), (118, 118), 18, kind=SyncKind.SUPERSEDED)
    again = row((5, 12), (118, 125), 18)
    recorded = [
        RecordedSync(1, 1, FIRST),
        RecordedSync(1, 2, superseded),
        RecordedSync(1, 2, SECOND),
        RecordedSync(1, 3, again),
    ]
    assert ranges(holding(recorded)) == [(0, 5, 100, 104), (5, 12, 118, 125)]


def test_a_later_epoch_comes_after_every_round_of_an_earlier_one() -> None:
    superseded = row((0, 20), (118, 118), 18, kind=SyncKind.SUPERSEDED)
    recorded = [RecordedSync(2, 1, superseded), RecordedSync(1, 9, FIRST), RecordedSync(1, 10, SECOND)]
    assert holding(recorded) == []


@pytest.mark.parametrize(
    ("target_end", "expected"),
    [
        (118, None),
        (117, at(19, 117, 17, 5)),
        (108, at(10, 108, 8, 5)),
        (107, at(9, 107, 7, 5)),
        (104, at(6, 104, 4, 5)),
        (103, at(3, 103, 3, 5)),
        (100, at(0, 100, 0, None)),
        (0, at(0, 0, 0, None)),
    ],
)
def test_a_target_that_lost_its_end_is_written_again_from_the_first_lost_record(
    target_end: int, expected: Position | None
) -> None:
    assert restart_at(in_rounds(FIRST, SECOND), target_end) == expected


def restart_at(recorded: list[RecordedSync], target_end: int) -> Position | None:
    """Where a copy goes on when nothing but `recorded` lies at its target."""
    sequence = sequence_at(recorded, COPY.topic_id, target_end, producer_id=7)
    return restart_after_target_truncation(holding(recorded), target_end, next_sequence=sequence or 0)


def test_a_log_without_records_of_the_flow_from_there_on_tells_no_sequence() -> None:
    assert sequence_at(in_rounds(FIRST, SECOND), COPY.topic_id, 118, producer_id=7) is None
    assert sequence_at(in_rounds(FIRST, SECOND), "another log", 100, producer_id=7) is None


def test_the_sequence_counts_what_a_supersession_took_out_of_the_map() -> None:
    orphaned = [
        *in_rounds(row((0, 50), (0, 50), 0), row((40, 50), (50, 50), 50, kind=SyncKind.SUPERSEDED)),
        RecordedSync(1, 3, row((40, 60), (50, 70), 50)),
    ]
    assert restart_at(orphaned, 45) == at(40, 45, 45, 5)


def test_of_two_claims_of_a_target_offset_the_later_tells_the_sequence() -> None:
    """Others' records lay at 10 to 15 before the target lost them, and the flow's own behind them."""
    recorded = in_rounds(
        row((0, 10), (0, 10), 0),
        row((10, 20), (15, 25), 10),
        row((10, 20), (10, 10), 10, kind=SyncKind.SUPERSEDED),
        row((10, 20), (10, 20), 10),
    )
    assert [sequence_at(recorded, COPY.topic_id, offset, producer_id=7) for offset in (9, 17, 19)] == [
        9,
        17,
        19,
    ]


def test_a_truncation_inside_unpaired_records_keeps_their_sequences() -> None:
    recorded = in_rounds(
        FIRST, row((10, 10), (108, 112), 8, kind=SyncKind.UNPAIRED), row((10, 12), (112, 114), 12)
    )
    assert restart_at(recorded, 110) == at(10, 110, 10, 5)


@pytest.mark.parametrize(
    ("epoch", "end", "expected"),
    [
        (5, 15, CommonEnd(15, 5)),
        (5, 30, CommonEnd(20, 5)),
        (4, 15, CommonEnd(0, None)),
        (None, 12, CommonEnd(12, 5)),
        (5, 0, CommonEnd(0, None)),
    ],
)
def test_source_and_copy_agree_up_to_the_smaller_end_of_the_last_common_epoch(
    epoch: int | None, end: int, expected: CommonEnd
) -> None:
    recorded = in_rounds(FIRST, SECOND, row((20, 25), (118, 123), 18, epoch=7))
    assert common_end(recorded, epoch=epoch, end=end) == expected


@st.composite
def syncs(draw: st.DrawFn) -> OffsetSync:
    start = draw(st.integers(0, 50))
    kinds = draw(st.lists(st.sampled_from("rg"), min_size=1, max_size=40))
    gaps: list[Gap] = []
    records = 0
    for offset, kind in enumerate(kinds, start):
        if kind == "r":
            records += 1
        elif gaps and gaps[-1].source_end == offset:
            gaps[-1] = replace(gaps[-1], source_end=offset + 1)
        else:
            gaps.append(Gap(offset, offset + 1, GapCause.CONTROL))
    target = draw(st.integers(0, 50))
    return row((start, start + len(kinds)), (target, target + records), 7, gaps=tuple(gaps))


@given(sync=syncs(), place=st.integers(0, 100))
def test_a_cut_keeps_exactly_the_records_below_it(sync: OffsetSync, place: int) -> None:
    copied = [
        offset
        for offset in range(sync.source_start, sync.source_end)
        if not any(gap.source_start <= offset < gap.source_end for gap in sync.gaps)
    ]
    below = [offset for offset in copied if offset < place]
    superseded = row((place, 200), (200, 200), 0, kind=SyncKind.SUPERSEDED)
    kept = holding(in_rounds(sync, superseded))
    assert sum(part.records for part in kept) == len(below)
    lost = restart_at(in_rounds(sync), sync.target_start + len(below))
    assert (lost is None) == (len(below) == len(copied))
    if lost is not None:
        following = copied[len(below)]
        assert set(range(lost.source_offset, following)) & set(copied) == set()
        assert lost.source_offset <= following
        assert lost.next_sequence == 7 + len(below)


def test_a_row_that_was_lost_as_a_whole_is_copied_again_with_the_gap_at_its_start() -> None:
    """The gap is of the lost row's leader epoch, the restart tells that of the row before."""
    began_with_gap = row((20, 30), (118, 127), 18, gaps=(Gap(20, 21, GapCause.CONTROL),), epoch=6)
    recorded = in_rounds(FIRST, SECOND, began_with_gap)
    assert restart_at(recorded, 118) == at(20, 118, 18, 5)
