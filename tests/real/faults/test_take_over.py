"""A flow that is being mirrored is left alone unless its driver is to be replaced.

Faults 34 and 42, with real drivers as processes of their own.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ledger.domain.facts import WriterEvent
from ledger.sandbox import SandboxCluster
from tests.support.flows import FaultFlow, make_flow, produce, wait_until


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FaultFlow]:
    with make_flow(broker_pair, tmp_path, "take-over", "heartbeat_seconds = 5.0") as made:
        produce(made, 300)
        yield made
    print(made.log.read_text(encoding="utf-8")[-4000:] if made.log.exists() else "no driver was started")


def events(flow: FaultFlow) -> list[tuple[int, str]]:
    """Epochs and events of the flow's drivers, in the order of recording."""
    rows = DeltaTable(f"{flow.config.ledger.path}/writers").to_pyarrow_table().to_pylist()
    own = [row for row in rows if row["writer"] == "flow:flow"]
    return [(row["writer_epoch"], row["event"]) for row in sorted(own, key=lambda row: row["recorded_at_ms"])]


def changes(flow: FaultFlow) -> list[list[str] | None]:
    """The keys of each recorded change of the configuration, in the order of recording."""
    rows = DeltaTable(f"{flow.config.ledger.path}/operations").to_pyarrow_table().to_pylist()
    found = sorted(
        (row for row in rows if row["kind"] == "configuration_changed"), key=lambda row: row["recorded_at_ms"]
    )
    return [json.loads(row["content"])["changed"] for row in found]


def state_of_driver(flow: FaultFlow) -> str:
    done = flow.start_command("status", "flow", "-o", "json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)[0]["driver"]["state"])


@pytest.mark.fault(34, 42)
def test_a_living_driver_is_left_alone_until_it_is_to_be_replaced(flow: FaultFlow) -> None:
    first, second = flow.start(), None
    try:
        wait_until(lambda: flow.target_records() == 300, "all records on the target")
        wait_until(
            lambda: events(flow).count((1, WriterEvent.ALIVE)) >= 1, "a sign of life of an idle driver"
        )
        assert state_of_driver(flow) == "running"
        refused = flow.start_command("run", "flow", "--until-caught-up")
        assert refused.returncode == 5
        assert f"by process {first.process.pid} on host" in refused.stderr
        assert "epoch 1" in refused.stderr
        assert "--take-over" in refused.stderr
        assert first.process.poll() is None
        assert {epoch for epoch, _ in events(flow)} == {1}

        text = flow.config_file.read_text(encoding="utf-8")
        flow.config_file.write_text(text + "tasks = 2\n", encoding="utf-8")
        second = flow.start("--until-caught-up", "--take-over")
        assert first.wait() == 5, "an idle driver finds out by its sign of life"
        assert second.wait() == 0
    finally:
        first.end()
        if second is not None:
            second.end()
    assert events(flow)[-2:] == [(2, WriterEvent.CLAIMED), (2, WriterEvent.RELEASED)]
    assert changes(flow) == [None, ["tasks"]]
    assert "configuration is not that of the last driver: tasks" in flow.log.read_text(encoding="utf-8")
    assert state_of_driver(flow) == "released"
    assert flow.target_records() == 300
    assert flow.broken_invariants() == {}


def test_a_dead_driver_needs_no_flag(flow: FaultFlow) -> None:
    first = flow.start()
    try:
        wait_until(lambda: flow.target_records() == 300, "all records on the target")
        first.kill()
        assert state_of_driver(flow) == "dead"
        assert flow.start_command("status", "--check").returncode == 4
        second = flow.start("--until-caught-up")
        assert second.wait() == 0
    finally:
        first.end()
    assert events(flow)[-1] == (2, WriterEvent.RELEASED)
    assert changes(flow) == [None]
    assert flow.start_command("status", "--check").returncode == 0
