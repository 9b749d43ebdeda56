"""The source and the driver die together by kill -9, with copies that nobody recorded; the source comes back later."""

import csv
import json
import time
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.sandbox import Sandbox, SandboxCluster
from tests.support import recorded
from tests.support.commands import command
from tests.support.flows import PARTITIONS, FlowUnderTest, flow_under_test, produce
from tests.support.runs import FLOW
from tests.support.waiting import eventually

FIRST = 300
NEVER_COPIED = 30
OF_EACH = FIRST // PARTITIONS
NOTHING_RECORDED_S = 120.0  # a round whose end the driver does not live to see
SETTLED_WITHIN_S = 60.0


def forecast(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """Records that a failover would lose now, by its plan, and what settling has found."""
    done = command(capsys, flow.config, "plan", "failover", "--from", "east", "--to", "west", "-o", "json")
    found = json.loads(done.out)[0]["forecast"]
    return found["records_lost"], sum(row["settled"] for row in found["losses"])


def settle(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, str]], str]:
    """Exit code, the table, and what was said."""
    done = command(capsys, flow.config, "settle", FLOW, "--reason", "a fire", "-o", "csv")
    return done.code, list(csv.DictReader(StringIO(done.out))), done.err


@pytest.mark.fault(4, 32)
def test_what_was_not_recorded_when_both_died_is_counted_without_the_source_and_copied_once(
    broker_pair: Mapping[str, SandboxCluster],
    broker_pair_sandbox: Sandbox,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with flow_under_test(broker_pair, tmp_path, "settled", round_seconds=NOTHING_RECORDED_S) as flow:
        produce(flow, FIRST)
        flow.finish(spark)
        produce(flow, FIRST, start=FIRST)
        driver = flow.start()
        eventually(lambda: flow.target_records() == 2 * FIRST, "all records on the target")
        driver.kill()
        driver.end()
        produce(flow, NEVER_COPIED, start=2 * FIRST)
        assert command(capsys, flow.config, "record", "east", "--once").code == 0
        code, lines, said = settle(flow, capsys)
        assert (code, lines, "east answers" in said) == (5, [], True), "the source is there to pair them"
        broker_pair_sandbox.kill("east")
        try:
            assert forecast(flow, capsys) == (FIRST + NEVER_COPIED, 0), "all that nobody has recorded"
            asked_s = time.monotonic()
            code, lines, said = settle(flow, capsys)
            assert (code, time.monotonic() - asked_s < SETTLED_WITHIN_S) == (0, True), said
            assert [line["records"] for line in lines] == [str(OF_EACH)] * PARTITIONS
            assert f"{FIRST} records copied and not recorded, on {PARTITIONS} of {PARTITIONS}" in said
            assert forecast(flow, capsys) == (NEVER_COPIED, FIRST), "what is really lost"
            code, again, said = settle(flow, capsys)
            assert (code, {line["records"] for line in again}) == (0, {"0"}), said
            assert recorded.broken_invariants(flow.config) == {}
            assert place_of(flow, capsys, offset=OF_EACH + 50) == OF_EACH, (
                "nobody knows which of them were read"
            )
            assert place_of(flow, capsys, offset=OF_EACH - 50) == OF_EACH - 50
        finally:
            broker_pair_sandbox.start("east")
        assert flow.target_records() == 2 * FIRST, "the source has so many more"
        produce(flow, FIRST, start=2 * FIRST + NEVER_COPIED)
        flow.finish(spark)
        assert flow.assert_same_records() == 3 * FIRST + NEVER_COPIED
        assert flow.recorded_records() == 3 * FIRST + NEVER_COPIED
        assert place_of(flow, capsys, offset=OF_EACH + 50) == OF_EACH + 50
        assert recorded.broken_invariants(flow.config) == {}


def place_of(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str], *, offset: int) -> int:
    """Where an offset of the first partition is at the target."""
    asked = ("--flow", FLOW, "--topic", flow.topic, "--partition", "0", "--offset", str(offset))
    done = command(capsys, flow.config, "offsets", "translate", *asked, "-o", "json")
    assert done.code in (0, 4), done.err
    [answer] = json.loads(done.out)
    return int(answer["target_offset"])
