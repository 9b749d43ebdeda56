"""A driver died with copies that it had not recorded, and cleaners were at work before the next one looked."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.facts.syncs import SyncCause
from ledger.mirror import tail as tail_search
from ledger.mirror.assignment import StopCause
from tests.support.cleaned_lives import CleanedLife, Plain

_plain: st.SearchStrategy[Plain] = st.tuples(
    st.integers(0, 4), st.sampled_from([None, 0, 1, 2]), st.integers(0, 2)
)
_batches = st.lists(st.lists(_plain, min_size=1, max_size=5), max_size=8)
_cut = st.floats(0, 1)


def distinct(batches: Sequence[Sequence[Plain]], start: int = 0) -> list[list[Plain]]:
    """The same keys with a value and a time of its own for each record; tombstones stay."""
    number, made = start, list[list[Plain]]()
    for batch in batches:
        made.append([])
        for key, value, _ in batch:
            number += 1
            made[-1].append((key, None if value is None else number, number))
    return made


def lived(
    old: Sequence[Sequence[Plain]],
    copied: Sequence[Sequence[Plain]],
    new: Sequence[Sequence[Plain]],
    cuts: tuple[float, float, float],
) -> CleanedLife:
    """Written, cleaned before it was copied, copied, written on, and cleaned on both sides."""
    life = CleanedLife()
    life.write(old)
    life.source.compact(round(cuts[0] * life.source.end))
    life.write(copied)
    life.copy_unrecorded()
    life.write(new)
    life.source.compact(round(cuts[1] * life.source.end))
    life.target.compact(round(cuts[2] * life.target.end))
    return life


@settings(max_examples=100, print_blob=True, deadline=None)
@given(_batches, _batches, _batches, st.tuples(_cut, _cut, _cut), st.booleans(), st.booleans())
def test_nothing_is_lost_skipped_or_out_of_order(
    old: Sequence[Sequence[Plain]],
    copied: Sequence[Sequence[Plain]],
    new: Sequence[Sequence[Plain]],
    cuts: tuple[float, float, float],
    copies_again: bool,
    records_differ: bool,
) -> None:
    """Under either policy, and also where keys, values and times are so few that records are equal."""
    if records_differ:
        old, copied, new = distinct(old), distinct(copied, 100), distinct(new, 200)
    life = lived(old, copied, new, cuts)
    again = life.look_again(copies_again=copies_again)
    if again.stop is None:
        life.assert_all(records_differ=records_differ)
    else:
        assert (again.stop, copies_again) == (StopCause.TAIL_MISMATCH, False)
        life.assert_facts_fit()


@settings(max_examples=50, print_blob=True, deadline=None)
@given(_batches, _batches, st.floats(0, 1))
def test_where_only_the_target_was_cleaned_all_is_proved_by_counting(
    copied: Sequence[Sequence[Plain]], new: Sequence[Sequence[Plain]], cut: float
) -> None:
    life = lived([], copied, new, (0, 0, cut))
    again = life.look_again(copies_again=False)
    assert again.stop is None
    assert life.sent_again == sum(map(len, new))
    assert life.causes() <= {None}
    life.assert_all(records_differ=False)


@settings(max_examples=50, print_blob=True, deadline=None)
@given(_batches, _batches, _batches, st.tuples(_cut, _cut))
def test_where_only_the_source_was_cleaned_nothing_that_differs_is_copied_twice(
    old: Sequence[Sequence[Plain]],
    copied: Sequence[Sequence[Plain]],
    new: Sequence[Sequence[Plain]],
    cuts: tuple[float, float],
) -> None:
    old, copied, new = distinct(old), distinct(copied, 100), distinct(new, 200)
    life = lived(old, copied, new, (*cuts, 0))
    end = life.source.end - sum(map(len, new))
    again = life.look_again(copies_again=False)
    assert again.stop is None
    assert life.sent_again == sum(record.offset >= end for record in life.source.readable())
    assert SyncCause.ACCEPTED not in life.causes()
    life.assert_all()


def churn(start: int, keys: int, batches: int) -> list[list[Plain]]:
    """Every batch has a record of each key, with a value of its own."""
    return [[(key, start + n, start + n) for key in range(keys)] for n in range(batches)]


@pytest.mark.parametrize("copies_again", [False, True])
def test_records_that_both_cleaners_left_are_paired_and_nothing_is_copied_again(copies_again: bool) -> None:
    """Of old keys both sides have the last value, of churning ones they have different ones."""
    life = lived([], [[(9, 1, 1)], *churn(10, 3, 4), [(8, 1, 50)]], churn(100, 3, 2), (0, 0, 1))
    life.source.compact(life.source.end - 3)
    again = life.look_again(copies_again=copies_again)
    assert (again.stop, again.copy.result().copied_again) == (None, None)
    assert life.sent_again == len([r for r in life.source.readable() if r.offset >= 14])
    life.assert_all()


def test_where_nothing_survives_on_both_sides_the_policy_decides() -> None:
    for copies_again in (False, True):
        life = lived([], churn(10, 3, 4), churn(100, 3, 2), (0, 1, 1))
        again = life.look_again(copies_again=copies_again)
        assert (again.stop is None) is copies_again
        assert (again.copy.result().copied_again is not None) is copies_again
        life.assert_facts_fit()
        if copies_again:
            assert SyncCause.COMPACTED in life.causes()
            assert life.sent_again == len(life.source.readable())
            life.assert_all()


def test_records_behind_a_loss_are_paired_though_their_batch_is_cut() -> None:
    """Retention took the beginning of a batch; nobody knows how many of its records the target has before."""
    life = lived([], [[(key, 1, key) for key in range(5)]], [[(9, 1, 9)]], (0, 0, 0))
    life.source.delete_before(2)
    life.told = replace(life.told, position=life.told.position.lost_up_to(2))
    again = life.look_again(copies_again=False)
    assert (again.stop, life.sent_again) == (None, 1)
    assert life.pairs() == {2: 2, 3: 3, 4: 4, 5: 5}
    assert life.causes() == {None, SyncCause.COMPACTED}


def test_a_hole_is_held_back_until_the_tail_is_known_to_have_nothing_of_it() -> None:
    """What was in it is at the target: by the count of both."""
    life = lived([], [[(0, 1, 1)], [(1, 1, 2)]], [[(0, 2, 3)], [(2, 1, 4)]], (0, 1, 0))
    again = life.look_again(copies_again=False)
    assert (again.stop, life.causes()) == (None, {None})
    assert life.pairs() == {0: 0, 1: 1, 2: 2, 3: 3}
    life.assert_all()


def test_a_tail_that_is_too_long_to_be_held_is_left_to_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_search, "MOST_RECORDS", 10)
    for copies_again in (False, True):
        life = lived([], churn(10, 3, 4), churn(100, 3, 2), (0, 0, 1))
        again = life.look_again(copies_again=copies_again)
        assert (again.stop is None) is copies_again
        assert (again.copy.result().copied_again is not None) is copies_again


def test_what_a_tail_holds_behind_what_is_proved_is_left_to_the_policy() -> None:
    """A key that both sides have still is followed by churn of which they have nothing in common."""
    for copies_again in (False, True):
        written: list[list[Plain]] = [*churn(50, 3, 1), [(9, 1, 1)], *churn(10, 3, 4)]
        life = lived([], written, churn(100, 3, 2), (0, 1, 1))
        again = life.look_again(copies_again=copies_again)
        assert (again.stop is None) is copies_again
        assert life.pairs()[3] == 3
        life.assert_facts_fit()
