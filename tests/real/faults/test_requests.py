"""Requests of operators, answered by a real driver: what the command says is what happens."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ledger.sandbox import SandboxCluster
from tests.support.flows import FaultFlow, make_flow, produce, wait_until


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FaultFlow]:
    with make_flow(broker_pair, tmp_path, "requests") as made:
        produce(made, 300)
        yield made
    print(made.log.read_text(encoding="utf-8")[-4000:] if made.log.exists() else "no driver was started")


def ask(flow: FaultFlow, *arguments: str, code: int = 0) -> str:
    """What a request with its receipt said."""
    done = flow.start_command(arguments[0], "flow", *arguments[1:], "--wait", "90")
    assert done.returncode == code, done.stderr
    return done.stderr


def recorded_records(flow: FaultFlow) -> int:
    return sum(int(str(row["records"])) for row in flow.query("flow_status", flow="flow"))


def test_a_driver_pauses_resumes_and_refuses(flow: FaultFlow) -> None:
    driver = flow.start()
    try:
        wait_until(lambda: recorded_records(flow) == 300, "recorded copies")
        assert "takes it up after its round" in ask(flow, "pause", "--topic", flow.topic)
        produce(flow, 300, start=300)
        beyond = ("--topic", flow.topic, "--partition", "0", "--offset", "100000")
        assert "was refused" in ask(flow, "skip-to", *beyond, code=4)
        assert flow.target_records() == 300, "the refusal came rounds after the pause"
        ask(flow, "resume", "--topic", flow.topic)
        wait_until(lambda: recorded_records(flow) == 600, "records after the resumption")
        assert flow.target_records() == 600
        ask(flow, "pause")
        ask(flow, "skip-to", "--topic", flow.topic, "--partition", "0", "--offset", "150", code=5)
        produce(flow, 300, start=600)
        ask(flow, "skip-to", "--topic", flow.topic, "--partition", "0", "--offset", "250")
        ask(flow, "resume")
        wait_until(lambda: flow.target_records() == 850, "all but the skipped records")
        assert flow.start_command("stop", "flow").returncode == 0
        assert driver.wait() == 0
    finally:
        driver.end()
    told = flow.start_command("status", "flow").stdout
    assert "driver    released" in told
    assert told.count("receipt   ") == 5
    assert "\n  paused" not in told
    assert "\n  waiting" not in told
    assert flow.broken_invariants() == {}
