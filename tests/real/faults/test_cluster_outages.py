"""A whole cluster away for a while under a running flow, and for good under one that is to end."""

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ledger.sandbox import Sandbox, SandboxCluster
from tests.real.faults.test_driver_faults import assert_faithful, finish
from tests.support.flows import FaultFlow, make_flow, produce, wait_until

COUNT = 3_000


@pytest.fixture
def flow(
    broker_pair: Mapping[str, SandboxCluster], broker_pair_sandbox: Sandbox, tmp_path: Path
) -> Iterator[FaultFlow]:
    with make_flow(broker_pair, tmp_path, "outages") as made:
        yield made
        for alias in ("east", "west"):
            broker_pair_sandbox.start(alias)
    print(made.log.read_text(encoding="utf-8")[-4000:] if made.log.exists() else "no driver was started")


def told(flow: FaultFlow) -> str:
    return flow.log.read_text(encoding="utf-8")


@pytest.mark.fault(4, 5, 6)
def test_a_flow_outlives_an_outage_of_either_cluster(flow: FaultFlow, broker_pair_sandbox: Sandbox) -> None:
    produce(flow, COUNT)
    driver = flow.start()
    try:
        wait_until(lambda: flow.target_records() == COUNT, "all records on the target")
        for number, alias in enumerate(["east", "west"], start=1):
            if alias == "west":  # something is to be copied while the target is away
                broker_pair_sandbox.kill(alias)
                produce(flow, COUNT, start=number * COUNT)
            else:
                broker_pair_sandbox.kill(alias)
            seen = told(flow)
            wait_until(lambda alias=alias, seen=seen: alias in told(flow)[len(seen) :], "the trouble is told")
            recorded = flow.offset_syncs()
            assert driver.process.poll() is None, "an outage does not end a flow"
            assert flow.offset_syncs() == recorded, "nothing is recorded as copied"
            broker_pair_sandbox.start(alias)
            if alias == "east":
                produce(flow, COUNT, start=number * COUNT)
            wait_until(lambda n=number: flow.target_records() == (n + 1) * COUNT, "all records after it")
        assert driver.ask_to_stop(signal.SIGTERM) == 0
    finally:
        driver.end()
    assert "copying again" in told(flow)
    finish(flow)
    assert_faithful(flow, at_least=3 * COUNT)


@pytest.mark.fault(4, 5)
@pytest.mark.parametrize("alias", ["east", pytest.param("west", marks=pytest.mark.soak)])
def test_a_run_until_caught_up_ends_with_an_error_while_a_cluster_is_away(
    flow: FaultFlow, broker_pair_sandbox: Sandbox, alias: str
) -> None:
    produce(flow, COUNT)
    finish(flow)
    recorded = flow.offset_syncs()
    broker_pair_sandbox.kill(alias)
    driver = flow.start("--until-caught-up")
    try:
        assert driver.wait() == 1
    finally:
        driver.end()
    assert f"cluster {alias} at" in told(flow)
    assert flow.offset_syncs() == recorded
    broker_pair_sandbox.start(alias)
    finish(flow)
    assert_faithful(flow, at_least=COUNT)
