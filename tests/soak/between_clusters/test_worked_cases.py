"""The worked cases of groups that move between clusters by other seeds, and of three clusters that are a mesh."""

import os
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.sandbox import SandboxCluster
from tests.support.journeys import TOPOLOGIES, assert_nobody_skips

SEED = int(os.environ.get("MIRROR_LEDGER_SEED", random.randrange(2**32)))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_no_translation_passes_an_unread_record(
    broker_pair: Mapping[str, SandboxCluster],
    north: Mapping[str, SandboxCluster],
    spark: SparkSession,
    tmp_path: Path,
    topology: str,
) -> None:
    assert_nobody_skips(TOPOLOGIES[topology], {**broker_pair, **north}, spark, tmp_path, SEED)
