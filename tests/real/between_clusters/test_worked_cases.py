"""Groups move between real clusters, in every topology: they skip no record, and repeat what they were promised.

MIRROR_LEDGER_SEED repeats a run, or makes another. Three clusters that all mirror to each other are in `tests/soak`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.sandbox import SandboxCluster
from tests.support.journeys import assert_nobody_skips
from tests.support.topologies import CHAIN, FAN_IN, PREFIXED, REPLICA, SHARED, Topology

SEED = int(os.environ.get("MIRROR_LEDGER_SEED", "1"))


@pytest.mark.parametrize(
    "topology",
    [SHARED, PREFIXED, REPLICA],
    ids=["shared_names_both_ways", "prefixed_both_ways", "replica_topics"],
)
def test_no_translation_between_two_clusters_passes_an_unread_record(
    broker_pair: Mapping[str, SandboxCluster], spark: SparkSession, tmp_path: Path, topology: Topology
) -> None:
    assert_nobody_skips(topology, broker_pair, spark, tmp_path, SEED)


@pytest.mark.parametrize("topology", [FAN_IN, CHAIN], ids=["fan_in", "chain_of_three"])
def test_no_translation_between_three_clusters_passes_an_unread_record(
    broker_pair: Mapping[str, SandboxCluster],
    north: Mapping[str, SandboxCluster],
    spark: SparkSession,
    tmp_path: Path,
    topology: Topology,
) -> None:
    assert_nobody_skips(topology, {**broker_pair, **north}, spark, tmp_path, SEED)
