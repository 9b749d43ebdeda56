"""A driver that gets a signal while its Spark starts."""

import signal
from collections.abc import Callable

from ledger import Ledger
from ledger.answers.drivers import DriverState
from tests.support.flows import FlowUnderTest, produce
from tests.support.processes import command_of, descendants, is_running
from tests.support.runs import FLOW
from tests.support.waiting import eventually

Send = Callable[[int, int], None]
"""Sends a signal to a process or to its group: `os.kill`, `os.killpg`."""


def assert_ended_with_one_line(flow: FlowUnderTest, send: Send, number: signal.Signals, *, code: int) -> None:
    """It ends with the code and one line, and neither a process nor a claim is left; status tells of its start."""
    produce(flow, 300)
    driver = flow.start()
    eventually(lambda: _has_jvm(driver.process.pid), "a JVM that starts")
    assert _told(flow)[0] is DriverState.STARTING
    below = descendants(driver.process.pid)
    send(driver.process.pid, number)
    assert driver.wait() == code
    eventually(lambda: not any(is_running(pid) for pid in below), "its JVM has ended")
    assert "Traceback" not in flow.told()
    assert [line for line in flow.told().splitlines() if "error" in line.lower()] == [
        f"error: ended by {number.name} while Spark was starting; nothing was copied"
    ]
    assert flow.target_records() == 0
    assert flow.rows("writers") == 0
    assert _told(flow) == (DriverState.NEVER_RAN, True)


def _told(flow: FlowUnderTest) -> tuple[DriverState, bool]:
    """The state of the driver, and whether its last start came to nothing."""
    driver = Ledger.open(flow.config).status(FLOW).flows[0].driver
    return driver.state, driver.failed_start_at_ms is not None


def _has_jvm(pid: int) -> bool:
    return any("org.apache.spark" in command_of(below) for below in descendants(pid))
