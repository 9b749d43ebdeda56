"""Many lives of two clusters whose direction changes again and again, in storms."""

import pytest

from tests.support.calm_flows import live_in_storms


@pytest.mark.parametrize("first", range(100, 500, 50))
def test_each_record_is_at_both_sides_once_whatever_happens(first: int) -> None:
    live_in_storms(range(first, first + 50))
