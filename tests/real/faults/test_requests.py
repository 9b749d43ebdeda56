"""Requests of operators, answered by a real driver: what the command says is what happens."""

import pytest
from pyspark.sql import SparkSession

from ledger.mirror.progress import RunEnd
from tests.support.commands import command
from tests.support.drivers import ENDS_WITHIN_S
from tests.support.flows import FlowUnderTest, produce
from tests.support.recorded import broken_invariants
from tests.support.runs import FLOW, running
from tests.support.waiting import eventually


@pytest.fixture
def flow(flow: FlowUnderTest) -> FlowUnderTest:
    produce(flow, 300)
    return flow


def test_a_driver_pauses_resumes_refuses_and_stops(
    flow: FlowUnderTest, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(name: str, *arguments: str, code: int = 0) -> str:
        """What a request with its receipt said."""
        done = command(capsys, flow.config, name, FLOW, *arguments, "--wait", "90")
        assert done.code == code, done.err
        return done.err

    with running(flow.config, spark) as driver:
        eventually(lambda: flow.recorded_records() == 300, "recorded copies")
        assert "takes it up after its round" in ask("pause", "--topic", flow.topic)
        produce(flow, 300, start=300)
        beyond = ("--topic", flow.topic, "--partition", "0", "--offset", "100000")
        assert "was refused" in ask("skip-to", *beyond, code=4)
        assert flow.target_records() == 300, "the refusal came rounds after the pause"
        ask("resume", "--topic", flow.topic)
        eventually(lambda: flow.recorded_records() == 600, "records after the resumption")
        assert flow.target_records() == 600
        assert flow.assert_same_records() == 600
        ask("pause")
        ask("skip-to", "--topic", flow.topic, "--partition", "0", "--offset", "150", code=5)
        produce(flow, 300, start=600)
        ask("skip-to", "--topic", flow.topic, "--partition", "0", "--offset", "250")
        ask("resume")
        eventually(lambda: flow.target_records() == 850, "all but the skipped records")
        assert command(capsys, flow.config, "stop", FLOW, "--reason", "a test").code == 0
        summary = driver.result(ENDS_WITHIN_S)
    assert summary.end is RunEnd.ASKED_TO_STOP
    told = command(capsys, flow.config, "status", FLOW).out
    assert "driver    released" in told
    assert told.count("receipt   ") == 5
    assert "\n  paused" not in told
    assert "\n  waiting" not in told
    assert sum(row["target_end"] for row in flow.query("flow_positions")) == 850
    assert broken_invariants(flow.config) == {}
