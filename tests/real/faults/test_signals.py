"""Signals while Spark starts: one clear line, the documented exit code, no traceback, nothing left behind.

Fault 38. Once Spark runs, a signal ends the round under way (`test_driver_faults`, `test_cluster_outages`).
"""

import os
import signal

import pytest

from tests.support.flows import FlowUnderTest, Send, assert_ended_with_one_line


@pytest.mark.fault(38)
@pytest.mark.parametrize(
    ("send", "number", "code"),
    [(os.kill, signal.SIGTERM, 143), (os.killpg, signal.SIGINT, 130)],
    ids=["SIGTERM-driver", "SIGINT-process-group"],
)
def test_a_signal_while_spark_starts_ends_with_one_line(
    flow: FlowUnderTest, send: Send, number: signal.Signals, code: int
) -> None:
    assert_ended_with_one_line(flow, send, number, code=code)
