"""Signals while Spark starts: one clear line, the documented exit code, no traceback, nothing left behind.

Fault 38. Once Spark runs, a signal ends the round under way (`test_driver_faults`).
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ledger.sandbox import SandboxCluster
from tests.support.flows import FaultFlow, make_flow, produce, wait_until
from tests.support.processes import command_of, descendants, is_running


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FaultFlow]:
    with make_flow(broker_pair, tmp_path, "signals") as made:
        produce(made, 300)
        yield made
    print(made.log.read_text(encoding="utf-8")[-4000:] if made.log.exists() else "no driver was started")


def has_jvm(pid: int) -> bool:
    return any("org.apache.spark" in command_of(below) for below in descendants(pid))


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["driver", "process-group"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.fault(38)
def test_a_signal_while_spark_starts_ends_with_one_line(
    flow: FaultFlow, send: Callable[[int, int], None], number: signal.Signals, code: int
) -> None:
    driver = flow.start()
    try:
        wait_until(lambda: has_jvm(driver.process.pid), "a JVM that starts")
        below = descendants(driver.process.pid)
        send(driver.process.pid, number)
        assert driver.wait() == code
        wait_until(lambda: not any(is_running(pid) for pid in below), "its JVM has ended")
    finally:
        driver.end()
    log = flow.log.read_text(encoding="utf-8")
    assert "Traceback" not in log
    assert [line for line in log.splitlines() if "error" in line.lower()] == [
        f"error: ended by {number.name} while Spark was starting; nothing was copied"
    ]
    assert flow.target_records() == 0
    assert flow.rows("writers") == 0
