"""Faults as in `tests/real/faults`: at the other side, at other moments, many lives."""

import pytest

from tests.support.calm_flows import live_in_storms
from tests.support.copies import Pair
from tests.support.flows import flow_under_test, produce
from tests.support.forwarder import Forwarder
from tests.support.outages import (
    assert_a_run_ends_with_an_error_while_away,
    assert_given_up_in_time,
    assert_lost_answers_are_made_up_for,
    lost,
)
from tests.support.site import RealSite
from tests.support.trio import Trio, assert_others_go_on_while_one_hangs


@pytest.mark.fault(8)
def test_partitions_of_other_brokers_go_on_while_one_hangs(trio: Trio) -> None:
    assert_others_go_on_while_one_hangs(trio, is_connected=True)


@pytest.mark.fault(5)
def test_a_run_until_caught_up_ends_with_an_error_while_the_target_is_away(site: RealSite) -> None:
    with flow_under_test(site.pair, site.folder, "outages") as flow:
        produce(flow, 3_000)
        flow.finish(site.spark)
        with lost(site.sandbox, "west"):
            assert_a_run_ends_with_an_error_while_away(flow, site.spark, "west")
        flow.finish(site.spark)
        flow.assert_faithful(at_least=3_000)


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


@pytest.mark.parametrize("first", range(100, 500, 50))
def test_each_record_is_at_both_sides_once_whatever_happens(first: int) -> None:
    live_in_storms(range(first, first + 50))
