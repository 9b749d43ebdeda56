"""A run that is to end while its target is away."""

import pytest

from tests.support.flows import flow_under_test
from tests.support.outages import assert_ends_with_an_error_while_away
from tests.support.site import RealSite


@pytest.mark.fault(5)
def test_a_run_until_caught_up_ends_with_an_error_while_the_target_is_away(site: RealSite) -> None:
    with flow_under_test(site.pair, site.folder, "outages") as flow:
        assert_ends_with_an_error_while_away(flow, site.sandbox, site.spark, "west", records=3_000)
