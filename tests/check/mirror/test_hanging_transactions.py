"""How long an open transaction has held the last stable offset, over several looks."""

import pytest

from ledger.mirror.watches import StableOffset, observed

Look = tuple[int, int, float]
"""Last stable offset, high watermark, seconds."""


def after(*looks: Look) -> StableOffset:
    seen = None
    for last_stable, high_watermark, now_s in looks:
        seen = observed(seen, last_stable=last_stable, high_watermark=high_watermark, now_s=now_s)
    assert seen is not None
    return seen


@pytest.mark.parametrize(
    ("looks", "stands_s"),
    [
        ([(5, 9, 0.0)], 100.0),
        ([(5, 9, 0.0), (5, 12, 60.0)], 100.0),  # more records behind it change nothing
        ([(5, 9, 0.0), (7, 12, 60.0)], 40.0),  # it moved: another transaction holds it now
        ([(9, 9, 0.0), (9, 12, 60.0)], 40.0),  # nothing was held at the first look
        ([(5, 9, 0.0), (9, 9, 60.0)], 0.0),
        ([(5, 9, 0.0), (9, 9, 60.0), (9, 10, 70.0)], 30.0),
    ],
)
def test_21_how_long_the_same_offset_was_held(looks: list[Look], stands_s: float) -> None:
    assert after(*looks).stands_for(100.0) == stands_s


def test_21_stuck_from_the_limit_on() -> None:
    seen = after((5, 9, 0.0))
    assert [seen.is_stuck(now_s, after_s=60.0) for now_s in (59.9, 60.0)] == [False, True]
    assert not after((9, 9, 0.0)).is_stuck(1_000.0, after_s=60.0)
    assert seen.held_back == 4
