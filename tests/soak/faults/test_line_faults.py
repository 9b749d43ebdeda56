"""Bad lines at the other side and at other moments."""

import pytest

from tests.support.copies import Pair
from tests.support.forwarder import Forwarder
from tests.support.outages import assert_given_up_in_time, assert_lost_answers_are_made_up_for

Lines = dict[str, Forwarder]


@pytest.mark.fault(8)
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_half_open_connection_is_given_up_in_time(far_copy: Pair, lines: Lines, side: str) -> None:
    assert_given_up_in_time(far_copy, lines[side])


@pytest.mark.fault(28)
@pytest.mark.parametrize("batches", [1, 5, 40])
def test_answers_that_get_lost_leave_no_duplicate_and_no_hole(
    far_copy: Pair, lines: Lines, batches: int
) -> None:
    assert_lost_answers_are_made_up_for(far_copy, lines["target"], batches)
