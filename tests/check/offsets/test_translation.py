"""Commits: which of them a map may be asked for, how far they count, and that no record is passed unread.

The oracle of the property is what simulated consumers have read, never a map (`tests.support.two_way`).
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.clock import MARGIN_MS
from ledger.facts.syncs import Absence, Gap, GapCause, OffsetSync, SyncCause, SyncKind, TopicPartition
from ledger.offsets.statuses import TranslationStatus
from ledger.store import catalog
from tests.support.algebra.maps import OffsetMap, Translation
from tests.support.algebra.translation import (
    Commit,
    KnownMap,
    SeenEnd,
    Truncation,
    translate_commit,
    truncations_of,
)
from tests.support.histories import SOURCE, copied, lost, started, superseded, unpaired
from tests.support.two_way import lived

STATUS = TranslationStatus
LIVES = settings(max_examples=400, print_blob=True, deadline=None)
MIRRORED = Translation(None, STATUS.MIRRORED)


@LIVES
@given(st.integers(0, 2**32), st.booleans())
def test_no_group_passes_a_record_that_it_has_not_read(seed: int, is_two_way: bool) -> None:
    ways = lived(seed, is_two_way=is_two_way)
    for group in ways.judged_groups():
        landed = translate_commit([ways.known()], ways.commit_of(group)).target_offset
        assert landed is None or ways.skipped(group, landed) == set(), (group.name, landed)


@LIVES
@given(st.integers(0, 2**32))
def test_where_nobody_copies_back_there_is_an_answer(seed: int) -> None:
    ways = lived(seed, is_two_way=False)
    for group in ways.judged_groups():
        assert translate_commit([ways.known()], ways.commit_of(group)).target_offset is not None


def test_the_lives_skip_with_the_map_alone() -> None:
    """The property can fail: by one map, by the offsets of commits alone, groups would pass unread records."""
    for is_two_way in (True, False):
        passed = 0
        for seed in range(300):
            ways = lived(seed, is_two_way=is_two_way)
            for group in ways.judged_groups():
                landed = plain_answer(ways.known().offset_map, ways.commit_of(group).offset)
                passed += bool(ways.skipped(group, landed))
        assert passed, is_two_way


def plain_answer(offset_map: OffsetMap, committed_offset: int) -> int:
    """The record that is next by the map, whatever mirrors wrote."""
    following = [
        segment.target_start + max(committed_offset - segment.source_start, 0)
        for segment in offset_map.segments
        if segment.source_end > committed_offset
    ]
    return min(following, default=offset_map.target_end)


# What mirrors wrote ----------------------------------------------------------------------------


def mirror_write(start: int, end: int) -> Gap:
    return Gap(start, end, GapCause.MIRROR_WRITE)


def known(*syncs: OffsetSync, log_start: int | None = None, is_source_written: bool = True) -> KnownMap:
    offset_map = OffsetMap.from_syncs("flow", syncs)
    return KnownMap(offset_map=offset_map, target_log_start=log_start, is_source_written=is_source_written)


def at(offset: int, leader_epoch: int | None = None, **more: int | Absence | None) -> Commit:
    return replace(Commit(offset=offset, topic_id=SOURCE.topic_id, leader_epoch=leader_epoch), **more)  # type: ignore[arg-type]


def test_what_the_target_had_before_may_not_have_come_back_yet() -> None:
    """East a0 a1; west b0 a0' a1', b0 not copied yet."""
    rows = (copied(0, 2, 1),)
    assert known(*rows).translate(at(0)) == MIRRORED
    assert known(*rows, is_source_written=False).translate(at(0)) == Translation(1, STATUS.EXACT)


def test_what_mirrors_wrote_behind_a_commit_may_lie_anywhere_at_the_target() -> None:
    """East a0 a1 b0' b1' b2'; west b0 b1 a0' a1' b2."""
    rows = (copied(0, 5, 2, mirror_write(2, 5)),)
    for is_source_written in (True, False):
        both = known(*rows, is_source_written=is_source_written)
        assert [both.translate(at(offset)) for offset in (0, 2, 4)] == [MIRRORED] * 3
    assert known(*rows).translate(at(5)) == MIRRORED
    assert known(*rows, is_source_written=False).translate(at(5)) == Translation(4, STATUS.AT_END)


@pytest.mark.parametrize(("offset", "landed"), [(4, 4), (5, None), (7, None)])
def test_one_map_answers_as_far_as_it_holds_all(offset: int, landed: int | None) -> None:
    rows = (copied(0, 3, 0), copied(3, 5, 3), copied(5, 7, 8))
    assert known(*rows).translate(at(offset)).target_offset == landed


def test_what_is_held_begins_at_the_log_start_and_counts_unpaired_records() -> None:
    assert known(copied(0, 9, 95)).translate(at(4)) == MIRRORED
    assert known(copied(0, 9, 95), log_start=94).translate(at(4)) == MIRRORED
    assert known(copied(0, 9, 95), log_start=95).translate(at(4)) == Translation(99, STATUS.EXACT)
    assert known(started(0, 40)).translate(at(0)) == MIRRORED
    assert known(started(0, 40), log_start=40).translate(at(0)) == Translation(40, STATUS.AT_END)
    rows = (copied(0, 3, 0), unpaired(3, 3, 2), copied(3, 6, 5))
    assert known(*rows).translate(at(4)) == Translation(6, STATUS.EXACT)


# What the source took back ---------------------------------------------------------------------


def of_epoch(epoch: int | None, sync: OffsetSync) -> OffsetSync:
    return replace(sync, source_leader_epoch=epoch)


WITHDRAWN = (
    of_epoch(3, copied(0, 100, 0)),
    of_epoch(3, superseded(80, 100, 100)),
    of_epoch(4, copied(80, 110, 100)),
    of_epoch(6, copied(110, 120, 130)),
)


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        (at(95, 3), Translation(100, STATUS.TRUNCATED)),
        (at(81, 3), Translation(100, STATUS.TRUNCATED)),
        (at(80, 3), Translation(100, STATUS.EXACT)),
        (at(95, 4), Translation(115, STATUS.EXACT)),
        (at(115, 5), Translation(130, STATUS.TRUNCATED)),
        (at(115, 7), Translation(135, STATUS.EXACT)),
        (at(95, None), Translation(115, STATUS.EXACT)),
    ],
)
def test_a_commit_cannot_lie_beyond_a_later_leader_epoch(commit: Commit, expected: Translation) -> None:
    assert known(*WITHDRAWN, is_source_written=False).translate(commit) == expected


def test_rows_that_carry_an_epoch_do_not_begin_it() -> None:
    rows = (of_epoch(9, started(0, 0)), of_epoch(3, copied(0, 9, 0)), of_epoch(4, lost(9, 12, 9)))
    assert known(*rows, is_source_written=False).translate(at(8, 2)).target_offset == 0
    assert known(*rows, is_source_written=False).translate(at(8, 3)) == Translation(8, STATUS.EXACT)


@pytest.mark.parametrize(
    ("commit", "landed"),
    [
        (at(95, None), 100),
        (at(95, None, made_after_ms=5_000 + MARGIN_MS), 100),
        (at(95, None, made_after_ms=5_001 + MARGIN_MS), 115),
        (at(80, None), 100),
        (at(79, None), 79),
        (at(95, 4), 115),
    ],
)
def test_without_an_epoch_a_commit_may_be_older_than_a_truncation(commit: Commit, landed: int) -> None:
    told = replace(known(*WITHDRAWN, is_source_written=False), truncations=(Truncation(80, 5_000),))
    assert told.translate(commit).target_offset == landed


@pytest.mark.parametrize(
    ("rows", "cuts"),
    [
        (
            [(3, copied(0, 40, 0)), (3, copied(0, 20, 0)), (5, copied(20, 30, 20)), (5, copied(30, 50, 30))],
            {(20, 2)},
        ),
        ([(3, copied(0, 40, 0)), (5, copied(40, 50, 40))], set()),
        ([(None, copied(0, 40, 0)), (5, copied(0, 50, 0))], set()),
        ([(3, lost(0, 40, 0)), (5, copied(0, 50, 0))], set()),
        ([(3, replace(copied(0, 40, 0), kind=SyncKind.ADOPTED)), (5, copied(39, 50, 40))], {(39, 1)}),
        ([(5, replace(copied(0, 40, 0), kind=SyncKind.ADOPTED)), (3, copied(0, 40, 40))], set()),
        ([(3, superseded(7, 9, 0, cause=SyncCause.SOURCE_TRUNCATED))], {(7, 0)}),
    ],
)
def test_leader_epochs_tell_of_a_truncation_that_no_driver_met(
    rows: list[tuple[int | None, OffsetSync]], cuts: set[tuple[int, int]]
) -> None:
    """The second of each cut is the row by which it is known first."""
    found = truncations_of((of_epoch(epoch, row), at) for at, (epoch, row) in enumerate(rows))
    assert {(cut.source_start, cut.recorded_at_ms) for cut in found} == cuts


@pytest.mark.parametrize(
    ("seen", "rows", "cuts"),
    [
        (SeenEnd(3, 25), [copied(20, 30, 20), copied(30, 50, 30)], {(20, 1)}),
        (SeenEnd(3, 20), [copied(20, 50, 20)], set()),  # another leader, nothing lost
        (SeenEnd(5, 90), [copied(20, 50, 20)], set()),  # of the epoch itself
        (SeenEnd(3, 31), [copied(20, 50, 20, Gap(20, 30, GapCause.COMPACTED))], {(20, 1)}),
        (SeenEnd(3, 30), [copied(20, 50, 20, Gap(20, 30, GapCause.COMPACTED))], set()),
        (SeenEnd(3, 21), [copied(20, 50, 20, Gap(20, 30, GapCause.ABORTED))], {(20, 1)}),
        (SeenEnd(3, 90), [replace(copied(20, 50, 20), kind=SyncKind.ADOPTED)], set()),
        (SeenEnd(3, 90), [lost(20, 50, 20)], set()),
    ],
)
def test_the_ends_that_recorders_saw_tell_of_what_was_never_copied(
    seen: SeenEnd, rows: list[OffsetSync], cuts: set[tuple[int, int]]
) -> None:
    """Rows of leader epoch 5 follow one of epoch 3 up to 20."""
    known = [(of_epoch(3, copied(0, 20, 0)), 0), *((of_epoch(5, row), at) for at, row in enumerate(rows, 1))]
    found = truncations_of(known, [seen])
    assert {(cut.source_start, cut.recorded_at_ms) for cut in found} == cuts


def test_a_commit_beyond_the_map_counts_as_made_where_the_source_was_truncated() -> None:
    told = replace(known(copied(0, 9, 0), is_source_written=False), truncations=(Truncation(9, 5_000),))
    assert told.translate(at(50)) == Translation(9, STATUS.TRUNCATED)


# Lives and absence -----------------------------------------------------------------------------


def test_a_commit_finds_the_map_of_its_topic_id() -> None:
    old = known(replace(copied(0, 9, 0), source=TopicPartition("t", "old", 0)))
    new = known(copied(0, 9, 50), is_source_written=False)
    assert translate_commit([old, new], at(4)) == Translation(54, STATUS.EXACT)
    assert translate_commit([old, new], Commit(offset=4, topic_id="old")) == Translation(4, STATUS.EXACT)
    for topic_id in ("never", None):
        other = Commit(offset=4, topic_id=topic_id)
        assert translate_commit([old, new], other) == Translation(None, STATUS.OTHER_INCARNATION)
    assert translate_commit([], at(4)) == Translation(None, STATUS.NO_MAP)


IN_ORDER = [
    (STATUS.NO_MAP, None),
    (STATUS.OTHER_INCARNATION, None),
    (STATUS.OTHER_TARGET_INCARNATION, None),
    (STATUS.MIRRORED, None),
    (STATUS.BEFORE_FIRST, 50),
    (STATUS.LOST, 61),
    (STATUS.EXPIRED_ON_TARGET, 60),
    (STATUS.AHEAD, 71),
    (STATUS.GONE, 65),
    (STATUS.HIDDEN, 65),
    (STATUS.TRUNCATED, 61),
    (STATUS.EXACT, 65),
    (STATUS.AT_END, 71),
]


def test_the_first_status_that_applies_in_their_order() -> None:
    """Each commit has what the later statuses are about, too, as far as one offset can."""
    rows = (
        of_epoch(1, copied(10, 20, 50)),
        of_epoch(1, lost(20, 25, 60)),
        of_epoch(2, copied(25, 36, 61, Gap(34, 35, GapCause.CONTROL))),
    )
    rows = (*rows[:2], replace(rows[2], target_start=61, target_end=71))
    plain = known(*rows, is_source_written=False)
    beyond = known(copied(10, 20, 50), is_source_written=False, log_start=60)
    gone = at(30, 1, absence=Absence.GONE)
    answers = [
        translate_commit([], gone),
        translate_commit([plain], replace(gone, topic_id="other")),
        translate_commit([replace(plain, is_other_incarnation=True, is_source_written=True)], gone),
        translate_commit([replace(plain, is_source_written=True)], gone),
        translate_commit([plain], replace(gone, offset=9)),
        translate_commit([plain], replace(gone, offset=22, leader_epoch=1)),
        translate_commit([beyond], replace(gone, offset=15)),
        translate_commit([plain], replace(gone, offset=37, leader_epoch=2)),
        translate_commit([plain], replace(gone, offset=29, leader_epoch=2)),
        translate_commit([plain], at(29, 2, absence=Absence.HIDDEN)),
        translate_commit([plain], at(30, 1)),
        translate_commit([plain], at(29, 2)),
        translate_commit([plain], at(36, 2)),
    ]
    assert [(answer.status, answer.target_offset) for answer in answers] == IN_ORDER
    assert [status for status, _ in IN_ORDER] == list(catalog.query("offset_translation").statuses)
