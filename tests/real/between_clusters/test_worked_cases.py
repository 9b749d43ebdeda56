"""Groups move between real clusters and skip no record; here where applications publish to replica topics.

MIRROR_LEDGER_SEED repeats a run, or makes another. All topologies are in `tests/soak`.
"""

import os

from tests.support.journeys import REPLICA, assert_nobody_skips
from tests.support.site import RealSite

SEED = int(os.environ.get("MIRROR_LEDGER_SEED", "1"))


def test_no_translation_between_two_clusters_passes_an_unread_record(site: RealSite) -> None:
    assert_nobody_skips(REPLICA, site.pair, site.spark, site.folder, SEED)
