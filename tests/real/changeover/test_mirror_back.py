"""The source is lost and comes back with records that were never copied: applications go home, and nothing is read
again."""

from tests.support.extras_stories import require_nothing_read_again
from tests.support.site import RealSite


def test_groups_read_nothing_again_though_extras_lie_in_front_of_what_returns(site: RealSite) -> None:
    require_nothing_read_again(site, "replicate")
