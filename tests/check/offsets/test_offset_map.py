"""Offset maps of generated histories: which records they pair, and which offset syncs make none."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import InvalidValueError
from ledger.facts.history import Segment, expand
from ledger.facts.syncs import Gap, GapCause, OffsetSync, SyncCause, effective, recording_order
from tests.support.algebra.maps import OffsetMap
from tests.support.algebra.stretches import Unmapped, UnmappedKind, Unpaired
from tests.support.histories import (
    SOURCE,
    TARGET,
    History,
    adopted,
    copied,
    histories,
    lost,
    plain_histories,
    started,
    superseded,
    unpaired,
)

PRINTED = settings(print_blob=True, deadline=None)


@PRINTED
@given(histories())
def test_a_map_pairs_the_records_of_a_history(history: History) -> None:
    offset_map = OffsetMap.from_syncs("flow", history.syncs)
    assert dict(pairs(offset_map.segments)) == history.pairs
    assert dict(pairs(offset_map.earlier)) == history.earlier()


def pairs(segments: Sequence[Segment]) -> Iterator[tuple[int, int]]:
    for one in segments:
        yield from (
            (offset, one.target_start + offset - one.source_start)
            for offset in range(one.source_start, one.source_end)
        )


@PRINTED
@given(histories())
def test_what_is_next_is_so_record_by_record(history: History) -> None:
    offset_map = OffsetMap.from_syncs("flow", history.syncs)
    for offset in range(history.furthest + 3):
        earlier = [target for source, target in history.earlier().items() if source >= offset]
        by_map = history.pairs.get(offset, brute_next(history, offset))
        assert offset_map.next_target(offset) == min([by_map, *earlier]), offset


def brute_next(history: History, source_offset: int) -> int:
    """The first record after the last one before an offset, be it paired or not; the end when there is none."""
    before = [target for source, target in history.pairs.items() if source < source_offset]
    unpaired = {target for _, start, end in history.unpaired for target in range(start, end)}
    following = [t for t in {*history.pairs.values(), *unpaired} if t > max(before, default=-1)]
    return min(following, default=history.target_end)


@PRINTED
@given(histories())
def test_a_map_keeps_its_invariants(history: History) -> None:
    offset_map = OffsetMap.from_syncs("flow", history.syncs)
    stretches: list[Segment | Unmapped] = [*offset_map.segments, *offset_map.unmapped]
    covered = sorted(offset for s in stretches for offset in range(s.source_start, s.source_end))
    assert covered == list(range(history.source_start, history.source_end))  # M1
    landed = [offset for s in offset_map.segments for offset in range(s.target_start, s.target_end)]
    assert landed == sorted(set(landed))  # M2
    unpaired = [offset for u in offset_map.unpaired for offset in range(u.target_start, u.target_end)]
    assert sorted({*landed, *unpaired}) == sorted([*landed, *unpaired])  # M2
    assert (offset_map.source, offset_map.target) == (SOURCE, history.target)  # M3


@PRINTED
@given(plain_histories(), st.data())
def test_a_history_with_a_sync_missing_inside_is_refused(history: History, data: st.DataObject) -> None:
    if len(history.syncs) < 3:
        return
    missing = data.draw(st.integers(1, len(history.syncs) - 2))
    with pytest.raises(InvalidValueError, match="M1"):
        OffsetMap.from_syncs("flow", [s for i, s in enumerate(history.syncs) if i != missing])


def test_expand_leaves_the_gaps_out() -> None:
    sync = copied(
        10,
        20,
        100,
        Gap(10, 11, GapCause.CONTROL),
        Gap(13, 14, GapCause.ABORTED),
        Gap(14, 16, GapCause.COMPACTED),
        Gap(19, 20, GapCause.FILTERED),
    )
    assert expand(sync) == (Segment(11, 13, 100), Segment(16, 19, 102))


def test_unmapped_stretches_know_where_the_target_stood() -> None:
    sync = copied(10, 20, 100, Gap(13, 14, GapCause.ABORTED), Gap(17, 20, GapCause.FILTERED))
    offset_map = OffsetMap.from_syncs("flow", [sync, lost(20, 25, 106)])
    assert offset_map.unmapped == (
        Unmapped(13, 14, 103, UnmappedKind.GAP, GapCause.ABORTED),
        Unmapped(17, 20, 106, UnmappedKind.GAP, GapCause.FILTERED),
        Unmapped(20, 25, 106, UnmappedKind.LOST, SyncCause.RETENTION),
    )


def test_a_partition_that_is_only_started_has_a_place() -> None:
    offset_map = OffsetMap.from_syncs("flow", [started(100, 40)])
    assert (offset_map.segments, offset_map.unmapped) == ((), ())
    assert (offset_map.source_start, offset_map.source_end, offset_map.target_end) == (100, 100, 40)


def test_a_row_that_lies_across_is_cut_with_its_gaps() -> None:
    sync = copied(0, 20, 100, Gap(2, 4, GapCause.CONTROL), Gap(8, 12, GapCause.ABORTED))
    offset_map = OffsetMap.from_syncs("flow", [sync, lost(20, 25, 114), superseded(10, 25, 114)])
    assert offset_map.segments == (Segment(0, 2, 100), Segment(4, 8, 102))
    assert [(gap.source_start, gap.source_end) for gap in offset_map.unmapped] == [(2, 4), (8, 10)]
    assert (offset_map.source_end, offset_map.target_end) == (10, 114)


def test_a_lost_stretch_is_cut() -> None:
    offset_map = OffsetMap.from_syncs("flow", [lost(0, 9, 100), superseded(4, 9, 100)])
    assert offset_map.unmapped == (Unmapped(0, 4, 100, UnmappedKind.LOST, SyncCause.RETENTION),)


RESYNC = (copied(0, 10, 0), superseded(4, 10, 30))


def test_old_copies_count_until_they_are_made_again() -> None:
    offset_map = OffsetMap.from_syncs("flow", RESYNC)
    assert offset_map.earlier == (Segment(4, 10, 4),)
    begun = OffsetMap.from_syncs("flow", [*RESYNC, copied(4, 9, 30)])
    assert begun.segments == (Segment(0, 4, 0), Segment(4, 9, 30))
    assert begun.earlier == (Segment(9, 10, 9),)
    again = OffsetMap.from_syncs("flow", [*RESYNC, copied(4, 10, 30)])
    assert again.earlier == ()


@pytest.mark.parametrize(
    ("rows", "earlier"),
    [
        ((superseded(4, 10, 10, SyncCause.SOURCE_TRUNCATED),), ()),
        ((superseded(4, 10, 30), copied(4, 8, 30), superseded(7, 8, 34, SyncCause.SOURCE_TRUNCATED)), ()),
        ((superseded(4, 10, 8, SyncCause.TARGET_TRUNCATED),), ((4, 8),)),
        ((superseded(4, 10, 30), superseded(4, 4, 6, SyncCause.TARGET_TRUNCATED)), ((4, 6),)),
        ((superseded(4, 10, 30), superseded(2, 4, 30)), ((2, 10),)),
        ((superseded(4, 10, 30), copied(4, 10, 30, Gap(6, 7, GapCause.COMPACTED))), ()),
        ((superseded(4, 10, 30), lost(4, 8, 30), copied(8, 12, 30)), ((4, 8),)),
    ],
    ids=[
        "taken back",
        "taken back later",
        "up to the target's end",
        "later end",
        "twice",
        "left out",
        "lost",
    ],
)
def test_old_copies_are_those_that_both_logs_hold(
    rows: tuple[OffsetSync, ...], earlier: tuple[tuple[int, int], ...]
) -> None:
    offset_map = OffsetMap.from_syncs("flow", [copied(0, 10, 0), *rows])
    assert [(copy.source_start, copy.source_end) for copy in offset_map.earlier] == list(earlier)


def test_old_copies_in_another_incarnation_of_the_target_do_not_count() -> None:
    elsewhere = replace(TARGET, topic_id="next")
    rows = [copied(0, 10, 0), replace(superseded(4, 10, 0), target=elsewhere)]
    assert OffsetMap.from_syncs("flow", rows).earlier == ()


def test_the_lowest_superseded_row_after_a_row_cuts_it() -> None:
    rows = [copied(0, 10, 0), superseded(3, 10, 10), copied(3, 8, 10), superseded(6, 8, 15)]
    assert OffsetMap.from_syncs("flow", rows).segments == (Segment(0, 3, 0), Segment(3, 6, 10))


def test_a_map_is_of_the_target_that_the_flow_went_to_last() -> None:
    gone_on = replace(superseded(4, 10, 0), target=replace(TARGET, topic_id="other"))
    offset_map = OffsetMap.from_syncs("flow", [copied(0, 10, 50), gone_on])
    assert (offset_map.target.topic_id, offset_map.segments) == ("other", ())


def test_records_that_nobody_can_place_lie_at_the_target_alone() -> None:
    offset_map = OffsetMap.from_syncs("flow", [copied(0, 5, 0), unpaired(5, 5, 3), lost(5, 9, 8)])
    assert offset_map.unpaired == (Unpaired(5, 5, 8),)


def test_what_others_wrote_behind_adopted_records_is_not_unpaired() -> None:
    others = replace(unpaired(5, 5, 3), records=0)
    offset_map = OffsetMap.from_syncs("flow", [adopted(0, 5, 0), others])
    assert offset_map.unpaired == ()


@pytest.mark.parametrize(("target_start", "unpaired_there"), [(8, 1), (7, 0)])
def test_unpaired_records_hold_where_the_target_goes_on_behind_them(
    target_start: int, unpaired_there: int
) -> None:
    rows = [copied(0, 5, 0), unpaired(5, 5, 3), superseded(5, 5, target_start)]
    assert len(OffsetMap.from_syncs("flow", rows).unpaired) == unpaired_there
    elsewhere = replace(rows[-1], target=replace(TARGET, topic_id="other"))
    assert effective([*rows[:2], elsewhere]) == [rows[0], elsewhere]


def test_a_gap_may_have_stood_higher_than_a_truncated_target() -> None:
    rows = [copied(0, 5, 0), copied(5, 9, 20, Gap(5, 7, GapCause.CONTROL)), superseded(7, 9, 10)]
    offset_map = OffsetMap.from_syncs("flow", rows)
    assert offset_map.target_end == 10
    offset_map = OffsetMap.from_syncs("flow", [*rows, copied(7, 9, 10)])
    assert offset_map.segments == (Segment(0, 5, 0), Segment(7, 9, 10))


def test_adopted_records_map_like_copied_ones() -> None:
    offset_map = OffsetMap.from_syncs("flow", [adopted(0, 5, 20, Gap(1, 3, GapCause.COMPACTED))])
    assert offset_map.segments == (Segment(0, 1, 20), Segment(3, 5, 21))


def test_an_order_of_recording() -> None:
    def order(epoch: int, round_: int, sync: OffsetSync) -> tuple[int, int, bool, int, int]:
        return recording_order(
            writer_epoch=epoch,
            round_number=round_,
            kind=sync.kind.value,
            source_start=sync.source_start,
            source_end=sync.source_end,
            target_end=sync.target_end,
        )

    oldest_first = [
        order(1, 9, superseded(0, 99, 0)),
        order(2, 1, copied(50, 90, 50)),
        order(2, 2, started(5, 5)),
        order(2, 2, unpaired(5, 5, 3)),
        order(2, 2, copied(5, 20, 8)),
        order(2, 2, superseded(7, 99, 99)),
        order(2, 2, superseded(6, 7, 0)),
    ]
    assert sorted(oldest_first) == oldest_first


OTHER_PARTITION = replace(SOURCE, partition=1)


@pytest.mark.parametrize(
    ("rule", "syncs"),
    [
        ("at least one", []),
        ("M1", [copied(0, 5, 0), copied(6, 9, 5)]),
        ("M1", [copied(0, 5, 0), copied(4, 9, 5)]),
        ("M1", [copied(0, 5, 0), copied(0, 5, 5)]),
        ("M2", [copied(0, 5, 10), copied(5, 9, 14)]),
        ("M2", [copied(0, 5, 10), copied(5, 9, 0)]),
        ("M3", [copied(0, 5, 0), replace(copied(5, 9, 5), source=OTHER_PARTITION)]),
        ("M1", [copied(0, 5, 0), superseded(6, 6, 5)]),
        ("M1", [copied(0, 5, 0), superseded(3, 5, 5), copied(5, 9, 5)]),
        ("M1", [copied(0, 5, 0), unpaired(4, 5, 1)]),
        ("M1", [started(4, 0), copied(5, 9, 5)]),
        ("M2", [copied(0, 5, 0), superseded(3, 5, 2)]),
        ("M2", [copied(0, 5, 10), lost(5, 9, 14)]),
        ("M2", [copied(0, 5, 0), unpaired(5, 4, 2)]),
        ("M2", [copied(0, 5, 0), unpaired(5, 5, 2), copied(5, 9, 6)]),
        ("no source offsets", [replace(started(4, 0), source_end=5)]),
        ("no source offsets", [replace(unpaired(4, 0, 1), source_end=5)]),
        ("no source offsets", [replace(started(4, 0), source_start=-1, source_end=-1)]),
        ("no target offsets", [replace(started(4, 0), target_end=1)]),
        ("no target offsets", [replace(superseded(4, 5, 0), target_end=1)]),
        ("source_start <= source_end", [superseded(5, 4, 0)]),
        ("source_start < source_end", [copied(5, 5, 0)]),
        ("source_start < source_end", [copied(-1, 5, 0)]),
        ("as many target offsets", [replace(copied(0, 5, 0), target_end=6)]),
        ("as many target offsets", [replace(copied(0, 5, 0), target_end=4)]),
        ("gaps must ascend", [copied(0, 5, 0, Gap(3, 6, GapCause.CONTROL))]),
        ("gaps must ascend", [copied(3, 5, 0, Gap(2, 4, GapCause.CONTROL))]),
        ("gaps must ascend", [copied(0, 5, 0, Gap(2, 4, GapCause.CONTROL), Gap(3, 5, GapCause.CONTROL))]),
        ("a gap needs", [copied(0, 5, 0, Gap(2, 2, GapCause.CONTROL))]),
        ("lost stretch", [replace(lost(0, 5, 0), cause=None)]),
        ("lost stretch", [replace(lost(0, 5, 0), target_end=5)]),
        ("lost stretch", [replace(lost(0, 5, 0), gaps=(Gap(2, 3, GapCause.CONTROL),))]),
    ],
)
def test_a_wrong_construction_is_refused(rule: str, syncs: list[OffsetSync]) -> None:
    with pytest.raises(InvalidValueError, match=rule):
        OffsetMap.from_syncs("flow", syncs)


@pytest.mark.parametrize(("start", "end"), [(5, 5), (-1, 5)])
def test_an_unpaired_stretch_has_target_offsets(start: int, end: int) -> None:
    with pytest.raises(InvalidValueError, match="an unpaired stretch needs"):
        Unpaired(0, start, end)


def test_a_segment_starts_at_zero_or_later() -> None:
    with pytest.raises(InvalidValueError, match="target_start >= 0"):
        Segment(0, 1, -1)


@pytest.mark.parametrize(
    ("rule", "segments", "unpaired_start", "ends"),
    [
        ("M1", (), 9, (9, 20)),
        ("M1", (Segment(5, 9, 5), Segment(0, 5, 0)), 9, (9, 20)),
        ("M1", (Segment(0, 5, 0),), 9, (6, 20)),
        ("M1", (Segment(1, 5, 0),), 9, (5, 20)),
        ("M2", (Segment(0, 5, 0), Segment(5, 9, 4)), 9, (9, 20)),
        ("M2", (Segment(0, 5, 0),), 9, (5, 4)),
        ("M2", (Segment(0, 5, 0),), 9, (5, 9)),
    ],
)
def test_a_wrong_map_is_refused(
    rule: str, segments: tuple[Segment, ...], unpaired_start: int, ends: tuple[int, int]
) -> None:
    with pytest.raises(InvalidValueError, match=rule):
        OffsetMap(
            flow="flow",
            source=SOURCE,
            target=TARGET,
            segments=segments,
            unmapped=(),
            unpaired=(Unpaired(0, unpaired_start, unpaired_start + 1),),
            source_start=0,
            source_end=ends[0],
            target_end=ends[1],
        )
