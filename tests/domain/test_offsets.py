"""The offset algebra against a brute force over pairs of records, on generated source logs."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.domain.facts import Gap, GapCause, OffsetSync, SyncCause, SyncKind, TopicPartition
from ledger.domain.offsets import (
    OffsetMap,
    Segment,
    Translation,
    TranslationStatus,
    Unmapped,
    UnmappedKind,
    expand,
    translate_commit,
)
from ledger.errors import InvalidValueError
from tests.domain.ledgers import SOURCE, TARGET, History, copied, histories, lost

PRINTED = settings(print_blob=True, derandomize=False)
STATUS = TranslationStatus


def brute_force(history: History, committed_offset: int, log_start: int | None) -> Translation:
    """The same rule over single records: no segment, no bisection, no arithmetic on ranges."""
    following = [target for source, target in sorted(history.pairs.items()) if source >= committed_offset]
    answer = following[0] if following else history.target_end
    readable = max(answer, log_start or 0)
    return Translation(
        readable,
        brute_status(history, committed_offset, expired=readable > answer),
        readable - answer,
        max(0, committed_offset - history.source_end),
    )


def brute_status(history: History, committed_offset: int, *, expired: bool) -> TranslationStatus:
    verdicts = {
        STATUS.BEFORE_FIRST: committed_offset < history.source_start,
        STATUS.LOST: committed_offset in history.lost,
        STATUS.EXPIRED_ON_TARGET: expired,
        STATUS.EXACT: committed_offset in history.pairs,
        STATUS.GAP: committed_offset in history.gaps,
        STATUS.AT_END: committed_offset == history.source_end,
        STATUS.AHEAD: committed_offset > history.source_end,
    }
    return next(status for status, holds in verdicts.items() if holds)


@PRINTED
@given(histories(), st.one_of(st.none(), st.integers(0, 120)))
def test_every_offset_translates_as_the_records_say(history: History, log_start: int | None) -> None:
    offset_map = OffsetMap.from_syncs("flow", reversed(history.syncs))
    for committed_offset in range(max(history.source_start - 2, 0), history.source_end + 3):
        expected = brute_force(history, committed_offset, log_start)
        assert offset_map.translate(committed_offset, log_start) == expected, committed_offset


@PRINTED
@given(histories())
def test_a_translation_never_passes_an_unread_record(history: History) -> None:
    offset_map = OffsetMap.from_syncs("flow", history.syncs)
    for committed_offset in range(history.source_end + 3):
        landed = offset_map.translate(committed_offset).target_offset
        assert landed is not None
        assert all(target >= landed for source, target in history.pairs.items() if source >= committed_offset)


@PRINTED
@given(histories())
def test_there_and_back(history: History) -> None:
    offset_map = OffsetMap.from_syncs("flow", history.syncs)
    for source, target in history.pairs.items():
        assert offset_map.translate(source) == Translation(target, STATUS.EXACT)
        back = offset_map.reverse(target)
        assert (back.source_offset, back.status) == (source, STATUS.EXACT)
    end = offset_map.reverse(offset_map.target_end)
    assert (end.source_offset, end.status) == (history.source_end, STATUS.AT_END)


@PRINTED
@given(histories())
def test_reverse_never_passes_an_unread_record(history: History) -> None:
    offset_map = OffsetMap.from_syncs("flow", history.syncs)
    targets = set(history.pairs.values())
    for target_offset in range(history.target_end + 3):
        back = offset_map.reverse(target_offset)
        unread = [source for source, target in history.pairs.items() if target >= target_offset]
        assert back.source_offset == min(unread, default=history.source_end), target_offset
        assert (back.status is STATUS.EXACT) == (target_offset in targets)
        assert back.ahead_offsets == max(0, target_offset - history.target_end)
        assert (back.status is STATUS.AHEAD) == (target_offset > history.target_end)


@PRINTED
@given(histories())
def test_a_map_keeps_its_invariants(history: History) -> None:
    offset_map = OffsetMap.from_syncs("flow", history.syncs)
    stretches = sorted([*offset_map.segments, *offset_map.unmapped], key=lambda stretch: stretch.source_start)
    covered = [offset for s in stretches for offset in range(s.source_start, s.source_end)]
    assert covered == list(range(history.source_start, history.source_end))  # M1
    landed = [offset for s in offset_map.segments for offset in range(s.target_start, s.target_end)]
    assert landed == sorted(set(landed))  # M2
    assert (offset_map.source, offset_map.target) == (SOURCE, TARGET)  # M3


@PRINTED
@given(histories(), st.data())
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


def test_a_superseded_row_takes_no_part() -> None:
    taken_back = replace(copied(0, 10, 0), kind=SyncKind.SUPERSEDED)
    assert OffsetMap.from_syncs("flow", [taken_back, copied(10, 20, 100)]).source_start == 10


@pytest.mark.parametrize(
    ("committed_offset", "expected"),
    [
        (9, Translation(102, STATUS.BEFORE_FIRST, expired_offsets=2)),
        (10, Translation(102, STATUS.EXPIRED_ON_TARGET, expired_offsets=2)),
        (11, Translation(102, STATUS.EXPIRED_ON_TARGET, expired_offsets=1)),
        (12, Translation(102, STATUS.EXACT)),
        (13, Translation(103, STATUS.LOST)),
        (20, Translation(108, STATUS.AT_END)),
        (24, Translation(108, STATUS.AHEAD, ahead_offsets=4)),
    ],
)
def test_the_first_status_that_applies(committed_offset: int, expected: Translation) -> None:
    offset_map = OffsetMap.from_syncs("flow", [copied(10, 13, 100), lost(13, 15, 103), copied(15, 20, 103)])
    assert offset_map.translate(committed_offset, 102) == expected


def test_a_lost_stretch_below_the_log_start_stays_lost() -> None:
    offset_map = OffsetMap.from_syncs("flow", [lost(10, 15, 100), copied(15, 20, 100)])
    assert offset_map.translate(12, 101) == Translation(101, STATUS.LOST, expired_offsets=1)


def test_a_commit_finds_the_map_of_its_topic_id() -> None:
    old = OffsetMap.from_syncs("flow", [replace(copied(0, 9, 0), source=TopicPartition("t", "old", 0))])
    new = OffsetMap.from_syncs("flow", [copied(0, 9, 50)])
    assert translate_commit([old, new], SOURCE.topic_id, 4) == Translation(54, STATUS.EXACT)
    assert translate_commit([old, new], "old", 4) == Translation(4, STATUS.EXACT)
    assert translate_commit([old, new], "never", 4) == Translation(None, STATUS.OTHER_INCARNATION)
    assert translate_commit([old, new], None, 4) == Translation(None, STATUS.OTHER_INCARNATION)
    assert translate_commit([], SOURCE.topic_id, 4) == Translation(None, STATUS.NO_MAP)


OTHER_PARTITION = replace(SOURCE, partition=1)


@pytest.mark.parametrize(
    ("rule", "syncs"),
    [
        ("at least one", []),
        ("at least one", [replace(copied(0, 5, 0), kind=SyncKind.SUPERSEDED)]),
        ("M1", [copied(0, 5, 0), copied(6, 9, 5)]),
        ("M1", [copied(0, 5, 0), copied(4, 9, 5)]),
        ("M1", [copied(0, 5, 0), copied(0, 5, 5)]),
        ("M2", [copied(0, 5, 10), copied(5, 9, 14)]),
        ("M2", [copied(0, 5, 10), copied(5, 9, 0)]),
        ("M2", [copied(0, 5, 10), lost(5, 9, 14)]),
        ("M3", [copied(0, 5, 0), replace(copied(5, 9, 5), source=OTHER_PARTITION)]),
        ("M3", [copied(0, 5, 0), replace(copied(5, 9, 5), target=replace(TARGET, topic_id="other"))]),
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


def test_a_segment_starts_at_zero_or_later() -> None:
    with pytest.raises(InvalidValueError, match="target_start >= 0"):
        Segment(0, 1, -1)


@pytest.mark.parametrize(
    ("rule", "segments", "target_end"),
    [
        ("M1", (), 0),
        ("M1", (Segment(5, 9, 5), Segment(0, 5, 0)), 9),
        ("M2", (Segment(0, 5, 0), Segment(5, 9, 4)), 9),
        ("M2", (Segment(0, 5, 0),), 4),
    ],
)
def test_a_wrong_map_is_refused(rule: str, segments: tuple[Segment, ...], target_end: int) -> None:
    with pytest.raises(InvalidValueError, match=rule):
        OffsetMap(
            flow="flow", source=SOURCE, target=TARGET, segments=segments, unmapped=(), target_end=target_end
        )
