"""Half-open ranges of offsets: what they share with a stretch, what is left without them."""

import pytest

from ledger.facts.syncs import Share, from_offset, joined, overlapping, share_of, without

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
