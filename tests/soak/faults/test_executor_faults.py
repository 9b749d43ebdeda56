"""Executors that die, in a Spark cluster of real executor processes on this machine."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from tests.support.commands import command
from tests.support.drivers import ENDS_WITHIN_S, command_of, descendants, submit_command, submit_environment
from tests.support.flows import FlowUnderTest, produce, steady_load
from tests.support.runs import FLOW

FIRST = 300
LOAD_PER_S = 4_000
MORE = 6_000


@pytest.fixture
def flow(flow: FlowUnderTest) -> FlowUnderTest:
    produce(flow, FIRST)
    return flow


@contextmanager
def submitted(flow: FlowUnderTest) -> Iterator["subprocess.Popen[bytes]"]:
    """The job under spark-submit, with one executor in a process of its own."""
    arguments = ("--config", flow.config.file, "--flow", FLOW)
    with flow.log.open("ab") as log:
        driver = subprocess.Popen(
            submit_command("mirror_topics", *arguments, master="local-cluster[1,2,1024]"),
            stdout=log,
            stderr=log,
            env=submit_environment(),
            start_new_session=True,
        )
    try:
        yield driver
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


def executors(driver: "subprocess.Popen[bytes]") -> list[int]:
    return [pid for pid in descendants(driver.pid) if "CoarseGrainedExecutorBackend" in command_of(pid)]


@pytest.mark.fault(29, 30, 35)
def test_a_killed_executor_is_replaced_and_reconciles(
    flow: FlowUnderTest, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with submitted(flow) as driver:
        flow.wait_for_records(0)
        with steady_load(flow, per_second=LOAD_PER_S, start=FIRST):
            flow.wait_for_records(MORE)
            killed = executors(driver)
            assert killed, "the driver has no executor of its own"
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            flow.wait_for_records(MORE)
            assert not set(killed) & set(executors(driver))
        assert command(capsys, flow.config, "stop", FLOW).code == 0
        assert driver.wait(ENDS_WITHIN_S) == 0
    flow.finish(spark)
    flow.assert_faithful(at_least=FIRST + 2 * MORE)
