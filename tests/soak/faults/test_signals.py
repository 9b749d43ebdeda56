"""The other signals while Spark starts: each kind to the driver alone, and to its process group."""

import os
import signal

import pytest

from tests.support.flows import FlowUnderTest, Send, assert_ended_with_one_line


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["driver", "process-group"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.fault(38)
def test_a_signal_while_spark_starts_ends_with_one_line(
    flow: FlowUnderTest, send: Send, number: signal.Signals, code: int
) -> None:
    assert_ended_with_one_line(flow, send, number, code=code)
