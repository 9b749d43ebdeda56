"""A run that is to end while one of its clusters is away."""

import pytest
from pyspark.sql import SparkSession

from ledger.errors import ClusterUnavailableError
from ledger.sandbox import Sandbox
from tests.support.flows import FlowUnderTest, produce
from tests.support.runs import run


def assert_ends_with_an_error_while_away(
    flow: FlowUnderTest, sandbox: Sandbox, spark: SparkSession, alias: str, *, records: int
) -> None:
    """It names the cluster, records nothing, and the next run goes on."""
    produce(flow, records)
    flow.finish(spark)
    recorded = flow.rows("offset_syncs")
    sandbox.kill(alias)
    try:
        with pytest.raises(ClusterUnavailableError, match=f"cluster {alias} at") as told:
            run(flow.config, spark)
    finally:
        sandbox.start(alias)
    assert told.value.exit_code == 1
    assert flow.rows("offset_syncs") == recorded
    flow.finish(spark)
    flow.assert_faithful(at_least=records)
