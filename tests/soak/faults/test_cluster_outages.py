"""A run that is to end while its target is away."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.sandbox import Sandbox, SandboxCluster
from tests.support.flows import flow_under_test
from tests.support.outages import assert_ends_with_an_error_while_away


@pytest.mark.fault(5)
def test_a_run_until_caught_up_ends_with_an_error_while_the_target_is_away(
    broker_pair: Mapping[str, SandboxCluster],
    broker_pair_sandbox: Sandbox,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    with flow_under_test(broker_pair, tmp_path, "outages") as flow:
        assert_ends_with_an_error_while_away(flow, broker_pair_sandbox, spark, "west", records=3_000)
