"""Drivers that die, are asked to stop, or run twice: no duplicate, no hole, and the ledger's invariants hold."""

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import read_partition
from tests.support.flows import PARTITIONS, FaultFlow, make_flow, produce, steady_load, wait_until
from tests.support.processes import kill_python_worker

LOAD_PER_S = 20_000


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FaultFlow]:
    with make_flow(broker_pair, tmp_path, "driver-faults") as made:
        yield made
    print(made.log.read_text(encoding="utf-8")[-4000:] if made.log.exists() else "no driver was started")


def assert_same_records(flow: FaultFlow) -> int:
    """Both sides hold the same records in the same order; returns how many."""
    total = 0
    for partition in range(PARTITIONS):
        source = read_partition(flow.pair["east"].bootstrap_servers, (flow.topic, partition))
        target = read_partition(flow.pair["west"].bootstrap_servers, (flow.target_topic, partition))
        assert [placed.record for placed in source] == [placed.record for placed in target]
        total += len(source)
    return total


def assert_faithful(flow: FaultFlow, *, at_least: int) -> None:
    assert assert_same_records(flow) >= at_least
    assert flow.broken_invariants() == {}


def finish(flow: FaultFlow) -> None:
    driver = flow.start("--until-caught-up")
    try:
        assert driver.wait() == 0
    finally:
        driver.end()


@pytest.mark.fault(32)
def test_a_driver_killed_in_the_middle_leaves_no_duplicate_and_no_hole(flow: FaultFlow) -> None:
    driver = flow.start()
    try:
        with steady_load(flow, seconds=240, per_second=LOAD_PER_S):
            wait_until(lambda: flow.target_records() > LOAD_PER_S, "records on the target")
            driver.kill()
    finally:
        driver.end()
    copied_before = flow.target_records()
    recorded_before = sum(int(str(row["target_end"])) for row in flow.query("flow_positions", flow="flow"))
    finish(flow)
    assert copied_before > recorded_before, "the kill must leave copied records that are not recorded"
    assert any(int(str(row["recovered_rows"])) for row in flow.query("flow_status", flow="flow"))
    assert_faithful(flow, at_least=copied_before)


@pytest.mark.fault(29, 30, 35)
def test_a_killed_worker_is_replaced_and_reconciles(flow: FaultFlow) -> None:
    driver = flow.start()
    try:
        with steady_load(flow, seconds=240, per_second=LOAD_PER_S):
            wait_until(lambda: flow.target_records() > LOAD_PER_S, "records on the target")
            kill_python_worker(driver.process.pid)
            copied = flow.target_records()
            wait_until(lambda: flow.target_records() > copied + LOAD_PER_S, "records after the kill")
        assert driver.ask_to_stop(signal.SIGINT) == 0
    finally:
        driver.end()
    finish(flow)
    assert_faithful(flow, at_least=2 * LOAD_PER_S)


@pytest.mark.fault(33)
def test_a_second_driver_shuts_the_first_one_out(flow: FaultFlow) -> None:
    first = flow.start()
    second = None
    try:
        with steady_load(flow, seconds=240, per_second=LOAD_PER_S):
            wait_until(lambda: flow.target_records() > LOAD_PER_S, "records on the target")
            second = flow.start("--take-over")
            assert first.wait() == 5
            copied = flow.target_records()
            wait_until(lambda: flow.target_records() > copied + LOAD_PER_S, "records by the second driver")
        assert second.ask_to_stop(signal.SIGTERM) == 0
    finally:
        first.end()
        if second is not None:
            second.end()
    finish(flow)
    assert_faithful(flow, at_least=2 * LOAD_PER_S)


@pytest.mark.fault(38)
def test_a_stop_request_ends_the_round_and_exits_with_success(flow: FaultFlow) -> None:
    produce(flow, 3_000)
    driver = flow.start()
    try:
        wait_until(lambda: flow.target_records() == 3_000, "all records on the target")
        driver_stop = flow.start_command("stop", "flow", "--reason", "a test")
        assert driver_stop.returncode == 0
        assert driver.wait() == 0
    finally:
        driver.end()
    assert_faithful(flow, at_least=3_000)
    positions = flow.query("flow_positions", flow="flow")
    assert sum(int(str(row["target_end"])) for row in positions) == 3_000


def test_a_second_run_copies_nothing_and_appends_no_offset_sync(flow: FaultFlow) -> None:
    produce(flow, 3_000)
    finish(flow)
    before = flow.offset_syncs()
    assert before > 0
    finish(flow)
    assert flow.offset_syncs() == before
    assert flow.target_records() == 3_000
