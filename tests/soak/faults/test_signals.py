"""The other signals while Spark starts: each kind to the driver alone, and to its process group."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from ledger.sandbox import SandboxCluster
from tests.support.flows import Send, assert_ended_with_one_line, flow_under_test


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["driver", "process-group"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.fault(38)
def test_a_signal_while_spark_starts_ends_with_one_line(
    broker_pair: Mapping[str, SandboxCluster],
    tmp_path: Path,
    send: Send,
    number: signal.Signals,
    code: int,
) -> None:
    with flow_under_test(broker_pair, tmp_path, "signals") as flow:
        assert_ended_with_one_line(flow, send, number, code=code)
