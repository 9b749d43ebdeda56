"""Signals while Spark starts: one clear line, the documented exit code, no traceback, nothing left behind.

Fault 38. Once Spark runs, a signal ends the round under way (`test_served_mirror`, `test_cluster_outages`).
"""

import os
import signal

import pytest

from tests.support.flows import FlowUnderTest, assert_ended_with_one_line


@pytest.mark.fault(38)
def test_a_signal_while_spark_starts_ends_with_one_line(flow: FlowUnderTest) -> None:
    """Ctrl-C in a terminal; `make soak` sends others."""
    assert_ended_with_one_line(flow, os.killpg, signal.SIGINT, code=130)
