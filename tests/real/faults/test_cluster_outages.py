"""A whole cluster away for a while under a running flow, and for good under one that is to end."""

import signal
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.sandbox import Sandbox, SandboxCluster
from tests.support.flows import FlowUnderTest, flow_under_test, produce
from tests.support.outages import assert_ends_with_an_error_while_away
from tests.support.waiting import eventually

COUNT = 3_000


@pytest.fixture
def flow(
    broker_pair: Mapping[str, SandboxCluster], broker_pair_sandbox: Sandbox, tmp_path: Path
) -> Iterator[FlowUnderTest]:
    with flow_under_test(broker_pair, tmp_path, "outages") as made:
        yield made
        for alias in ("east", "west"):
            broker_pair_sandbox.start(alias)


def is_told(flow: FlowUnderTest, alias: str, *, after: int) -> bool:
    return alias in flow.told()[after:]


def holds(flow: FlowUnderTest, records: int) -> bool:
    """At the target, and recorded: what is recorded later has nothing to do with an outage."""
    return flow.target_records() == flow.recorded_records() == records


@pytest.mark.fault(4, 5, 6, 38)
def test_a_flow_outlives_an_outage_of_either_cluster(
    flow: FlowUnderTest, broker_pair_sandbox: Sandbox, spark: SparkSession
) -> None:
    produce(flow, COUNT)
    driver = flow.start()
    eventually(partial(holds, flow, COUNT), "all records on the target")
    for number, alias in enumerate(["east", "west"], start=1):
        seen = len(flow.told())
        broker_pair_sandbox.kill(alias)
        if alias == "west":  # something is to be copied while the target is away
            produce(flow, COUNT, start=number * COUNT)
        eventually(partial(is_told, flow, alias, after=seen), "the trouble is told")
        recorded = flow.rows("offset_syncs")
        assert driver.process.poll() is None, "an outage does not end a flow"
        assert flow.rows("offset_syncs") == recorded, "nothing is recorded as copied"
        broker_pair_sandbox.start(alias)
        if alias == "east":
            produce(flow, COUNT, start=number * COUNT)
        eventually(partial(holds, flow, (number + 1) * COUNT), "all records after it")
    assert driver.ask_to_stop(signal.SIGTERM) == 0
    assert "copying again" in flow.told()
    flow.finish(spark)
    flow.assert_faithful(at_least=3 * COUNT)


@pytest.mark.fault(4)
def test_a_run_until_caught_up_ends_with_an_error_while_the_source_is_away(
    flow: FlowUnderTest, broker_pair_sandbox: Sandbox, spark: SparkSession
) -> None:
    assert_ends_with_an_error_while_away(flow, broker_pair_sandbox, spark, "east", records=COUNT)
