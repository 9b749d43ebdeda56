"""Executors that die, in a Spark cluster of real executor processes on this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ledger.adapters.jvm import delta_jars
from ledger.sandbox import SandboxCluster
from tests.real.faults.test_driver_faults import LOAD_PER_S, assert_faithful, finish
from tests.support.checkout import CHECKOUT
from tests.support.flows import DEADLINE_S, FaultFlow, make_flow, steady_load, wait_until
from tests.support.processes import command_of, descendants


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FaultFlow]:
    with make_flow(broker_pair, tmp_path, "executors") as made:
        yield made
    print(made.log.read_text(encoding="utf-8")[-4000:] if made.log.exists() else "no driver was started")


def submitted(flow: FaultFlow) -> "subprocess.Popen[bytes]":
    """The job under spark-submit, with one executor in a process of its own."""
    command = [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", "local-cluster[1,2,1024]", "--jars", ",".join(str(jar) for jar in delta_jars())),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        str(CHECKOUT / "jobs" / "mirror_topics.py"),
        *("--config", str(flow.config_file), "--flow", "flow"),
    ]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(CHECKOUT),
    }
    with flow.log.open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


def executors(driver: "subprocess.Popen[bytes]") -> list[int]:
    return [pid for pid in descendants(driver.pid) if "CoarseGrainedExecutorBackend" in command_of(pid)]


@pytest.mark.fault(29, 30, 35)
def test_a_killed_executor_is_replaced_and_reconciles(flow: FaultFlow) -> None:
    driver = submitted(flow)
    try:
        with steady_load(flow, seconds=240, per_second=LOAD_PER_S):
            wait_until(lambda: flow.target_records() > LOAD_PER_S, "records on the target")
            killed = executors(driver)
            assert killed, "the driver has no executor of its own"
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            copied = flow.target_records()
            wait_until(lambda: flow.target_records() > copied + LOAD_PER_S, "records after the kill")
            assert not set(killed) & set(executors(driver))
        assert flow.start_command("stop", "flow").returncode == 0
        assert driver.wait(DEADLINE_S) == 0
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    finish(flow)
    assert_faithful(flow, at_least=2 * LOAD_PER_S)
