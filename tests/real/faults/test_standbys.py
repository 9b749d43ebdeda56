"""A driver that is killed is followed by one of two that wait for it; one that an operator stops is not."""

import logging
import signal
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from ledger.facts.syncs import WriterEvent
from ledger.mirror.progress import RunSummary
from ledger.mirror.standby import stand_by
from tests.support.commands import command
from tests.support.flows import FlowUnderTest, produce, steady_load
from tests.support.recorded import driver_events, rows
from tests.support.runs import FLOW, NOTHING
from tests.support.waiting import eventually

FIRST = 300
LOAD_PER_S = 2_000
WAITS = "waits as standby: the flow is that of process"
STOPPED = "waits as standby: an operator stopped the flow"
NO_NAME = "waits as standby, for both clusters to answer first"
TAKEN_OVER_WITHIN_MS = 5_000


def no_name(*_asked: object, **_named: object) -> NoReturn:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


class StandbyHere:
    """A standby in this process, on the session's Spark."""

    def __init__(self, flow: FlowUnderTest, spark: SparkSession, pool: ThreadPoolExecutor) -> None:
        self.stop = threading.Event()
        self.ended: Future[RunSummary | None] = pool.submit(
            stand_by,
            flow.config,
            FLOW,
            session=lambda: spark,
            recorded=NOTHING,
            stop=self.stop,
            on_round=lambda _so_far: None,
        )


@pytest.fixture
def flow(flow: FlowUnderTest) -> FlowUnderTest:
    produce(flow, FIRST)
    return flow


def claims(flow: FlowUnderTest) -> int:
    return sum(event == WriterEvent.CLAIMED for _, event in driver_events(flow.config))


@pytest.mark.fault(32, 34)
def test_one_of_two_standbys_follows_a_driver_that_was_killed_and_neither_one_that_was_stopped(
    flow: FlowUnderTest,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    driver, beside = flow.start(), flow.start("--standby")
    with ThreadPoolExecutor(max_workers=1) as pool:
        with monkeypatch.context() as without_names:
            without_names.setattr(socket, "getaddrinfo", no_name)
            here = StandbyHere(flow, spark, pool)
            eventually(lambda: NO_NAME in caplog.text, "it waits for names that do not resolve yet")
        try:
            eventually(lambda: WAITS in flow.told() and WAITS in caplog.text, "both wait")
            with steady_load(flow, per_second=LOAD_PER_S, start=FIRST):
                flow.wait_for_records(LOAD_PER_S)
                assert claims(flow) == 1, "nobody takes over from a driver that is alive"
                killed_at_ms = time.time_ns() // 1_000_000
                driver.kill()
                eventually(lambda: claims(flow) > 1, "somebody has taken over")
                flow.wait_for_records(LOAD_PER_S)
            taken = [row for row in rows(flow.config, "writers") if row["writer"] == f"flow:{FLOW}"][-1]
            after_ms = taken["recorded_at_ms"] - killed_at_ms
            assert 0 < after_ms < TAKEN_OVER_WITHIN_MS, f"taken over {after_ms} ms after the kill"
            assert "after its last sign (dead)" in flow.told() + caplog.text
            eventually(lambda: flow.recorded_records() >= FIRST + 2 * LOAD_PER_S, "records are recorded")
            assert command(capsys, flow.config, "stop", FLOW).code == 0
            eventually(lambda: (here.ended.done(), beside.process.poll()) in ENDS, "the driver ends")
            eventually(lambda: STOPPED in flow.told() + caplog.text, "the other one waits")
            held = claims(flow)
        finally:
            here.stop.set()
        assert beside.ask_to_stop(signal.SIGTERM) == 0
    assert claims(flow) == held
    assert driver_events(flow.config)[-1] == (held, WriterEvent.RELEASED)
    flow.finish(spark)
    flow.assert_faithful(at_least=FIRST + 2 * LOAD_PER_S)


ENDS = {(True, None), (False, 0)}
"""Which of the two has ended: the one here, or the process."""
