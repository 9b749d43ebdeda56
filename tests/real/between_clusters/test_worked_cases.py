"""Groups move between real clusters and skip no record; here where applications publish to replica topics.

MIRROR_LEDGER_SEED repeats a run, or makes another. All topologies are in `tests/soak`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from ledger.sandbox import SandboxCluster
from tests.support.journeys import REPLICA, assert_nobody_skips

SEED = int(os.environ.get("MIRROR_LEDGER_SEED", "1"))


def test_no_translation_between_two_clusters_passes_an_unread_record(
    broker_pair: Mapping[str, SandboxCluster], spark: SparkSession, tmp_path: Path
) -> None:
    assert_nobody_skips(REPLICA, broker_pair, spark, tmp_path, SEED)
