"""Drivers that die, are shut out, or run again: no duplicate, no hole, and the ledger's invariants hold.

The driver that something happens to is a process of its own; those that put things right run in this one.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from ledger.errors import ShutOutError
from ledger.facts.syncs import WriterEvent
from tests.support.commands import command, driver_state
from tests.support.drivers import ENDS_WITHIN_S, kill_python_worker
from tests.support.flows import FlowUnderTest, flow_under_test, produce, steady_load
from tests.support.recorded import configuration_changes, driver_events
from tests.support.runs import FLOW, run, running
from tests.support.site import RealSite
from tests.support.waiting import eventually

FIRST = 300
LOAD_PER_S = 4_000
MORE = 6_000  # records under load: more than a round copies before anything happens


@pytest.fixture
def flow(flow: FlowUnderTest) -> FlowUnderTest:
    produce(flow, FIRST)
    return flow


@pytest.mark.fault(29, 30, 32, 35)
def test_a_killed_worker_and_a_killed_driver_leave_no_duplicate_and_no_hole(
    flow: FlowUnderTest, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker is replaced; the next driver needs no flag: `status` says that the one before it is dead."""
    driver = flow.start()
    flow.wait_for_records(0)
    with steady_load(flow, per_second=LOAD_PER_S, start=FIRST):
        flow.wait_for_records(MORE)
        kill_python_worker(driver.process.pid)
        flow.wait_for_records(MORE)
        assert driver.process.poll() is None, "it outlives its worker"
        driver.kill()
    copied_before = flow.target_records()
    recorded_before = sum(row["target_end"] for row in flow.query("flow_positions"))
    assert copied_before > recorded_before, "the kill must leave copied records that are not recorded"
    assert driver_state(capsys, flow.config) == "dead"
    assert command(capsys, flow.config, "status", "--check").code == 4
    flow.finish(spark)
    assert any(row["recovered_rows"] for row in flow.query("flow_status"))
    flow.assert_faithful(at_least=copied_before)
    assert driver_events(flow.config)[-1] == (2, WriterEvent.RELEASED)
    assert configuration_changes(flow.config) == [None]
    assert command(capsys, flow.config, "status", "--check").code == 0


@pytest.mark.fault(33, 34, 42)
def test_a_driver_is_left_alone_until_another_one_is_to_replace_it(
    site: RealSite, caplog: pytest.LogCaptureFixture
) -> None:
    """An idle one, which is a process of its own, and one under load."""
    with flow_under_test(site.pair, site.folder, "take-over", "heartbeat_seconds = 2.0") as flow:
        produce(flow, FIRST)
        first = flow.start()
        eventually(lambda: flow.target_records() == FIRST, "all records on the target")
        alive = (1, WriterEvent.ALIVE)
        eventually(lambda: alive in driver_events(flow.config), "a sign of life of an idle driver")
        assert driver_state(site.capsys, flow.config) == "running"
        refused = site.command(flow.config, "run", FLOW, "--until-caught-up")
        assert refused.code == 5
        assert f"by process {first.process.pid} on host" in refused.err
        assert "epoch 1" in refused.err
        assert "--take-over" in refused.err
        assert first.process.poll() is None
        assert {epoch for epoch, _ in driver_events(flow.config)} == {1}

        changed = flow.changed("tasks = 2")
        with ThreadPoolExecutor(max_workers=1) as pool:
            second = pool.submit(run, changed, site.spark, until_caught_up=False, take_over=True)
            assert first.wait() == 5, "an idle driver finds out by its sign of life"
            assert flow.target_records() == FIRST
            assert configuration_changes(changed) == [None, ["tasks"]]
            assert "configuration is not that of the last driver: tasks" in caplog.text
            with steady_load(flow, per_second=LOAD_PER_S, start=FIRST):
                flow.wait_for_records(MORE)
                with running(changed, site.spark, take_over=True):
                    with pytest.raises(ShutOutError) as shut_out:
                        second.result(ENDS_WITHIN_S)
                    assert shut_out.value.exit_code == 5
                    flow.wait_for_records(MORE)
        events = {epoch: [event for one, event in driver_events(changed) if one == epoch] for epoch in (2, 3)}
        assert events[2][0] == WriterEvent.CLAIMED
        assert (events[3][0], events[3][-1]) == (WriterEvent.CLAIMED, WriterEvent.RELEASED)
        assert WriterEvent.RELEASED not in events[2]
        assert driver_state(site.capsys, changed) == "released"
        flow.finish(site.spark)
        flow.assert_faithful(at_least=FIRST + 2 * MORE)
