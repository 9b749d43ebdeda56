"""The worked cases of groups that move between clusters by other seeds, and of three clusters that are a mesh."""

import os
import random
from collections.abc import Mapping

import pytest

from ledger.sandbox import SandboxCluster
from tests.support.journeys import TOPOLOGIES, assert_nobody_skips
from tests.support.site import RealSite

SEED = int(os.environ.get("MIRROR_LEDGER_SEED", random.randrange(2**32)))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_no_translation_passes_an_unread_record(
    site: RealSite, north: Mapping[str, SandboxCluster], topology: str
) -> None:
    assert_nobody_skips(TOPOLOGIES[topology], {**site.pair, **north}, site.spark, site.folder, SEED)
