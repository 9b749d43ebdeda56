"""The ledger's host is lost under load: a copy becomes the ledger, and each record is at the target once."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from ledger.config.file import load_config
from ledger.sandbox.reading import read_topics
from ledger.store import answers, catalog, sql
from ledger.store.snapshots import open_ledger
from tests.support.commands import command
from tests.support.drivers import descendants
from tests.support.every_offset import every_offset, topic_ids
from tests.support.flows import FlowUnderTest, produce, steady_load
from tests.support.recorded import operations
from tests.support.runs import FLOW
from tests.support.waiting import eventually

FIRST = 300
LOAD_PER_S = 2_000
MORE = 3_000
BEHIND_THE_LOAD = 10_000_000
REFUSED = {"shut_out", "foreign_write"}
"""What stops a driver that was shut out: its batches are refused, or it reads first who has written behind its own."""
GROUP, COMMITTED_SINCE = "billing", 50
NO_COMMIT = ("--accept", "no_commit")


@pytest.mark.fault(33, 37, 55)
def test_a_ledger_restored_from_a_copy_knows_each_record_at_the_target(
    flow: FlowUnderTest, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its host stands still, with the ledger and with a driver, and another host mirrors on; the driver comes back."""
    copy = str(tmp_path / "copy")
    produce(flow, FIRST)
    driver = flow.start()
    flow.wait_for_records(0)
    with steady_load(flow, per_second=LOAD_PER_S, start=FIRST):
        flow.wait_for_records(MORE)
        _commit(flow, 10)
        eventually(lambda: flow.rows("checkpoints") > 0, "the commit is recorded")
        copied = command(capsys, flow.config, "ledger", "copy", copy)
        assert copied.code == 0, copied.err
        _commit(flow, COMMITTED_SINCE)
        flow.wait_for_records(MORE)
        halted = [driver.process.pid, *descendants(driver.process.pid)]
        for pid in halted:
            os.kill(pid, signal.SIGSTOP)
    at_target = flow.target_records()

    elsewhere = tmp_path / "elsewhere.toml"
    made = str(tmp_path / "made")
    elsewhere.write_text(Path(flow.config.file).read_text().replace(flow.config.ledger.path, made))
    here = replace(flow, config=load_config(elsewhere))
    lost = open_ledger(copy).now().cut.ledger_id
    restored = command(
        capsys, here.config, "ledger", "restore", copy, "--accept-loss-of", lost, "--reason", "a fire"
    )
    assert restored.code == 0, restored.err
    _assert_commits_are_unknown(here, capsys)
    assert here.recorded_records() < at_target - MORE / 2, "the copy must be older than the target"
    [content] = operations(here.config, "ledger_restored")
    assert content["ledger_id"] == lost
    here.finish(spark)
    assert any(row["recovered_rows"] for row in here.query("flow_status"))
    assert [done["is_done"] for done in operations(here.config, "former_drivers_shut_out")] == [False, True]
    here.assert_faithful(at_least=at_target)
    _assert_every_offset_translates(here)
    read = command(capsys, here.config, "record", "east", "--once")
    assert read.code == 0, read.err
    known = command(capsys, here.config, "offsets", "translate", "--flow", FLOW, "-o", "json")
    [row] = [
        one
        for one in json.loads(known.out)
        if one["source_topic"] == flow.topic and one["committed_offset"] is not None
    ]
    assert row["committed_offset"] == COMMITTED_SINCE
    assert "is unknown" not in known.err
    reset = command(
        capsys, here.config, "offsets", "translate", "--flow", FLOW, "-o", "kafka-reset", *NO_COMMIT
    )
    assert f"{row['target_offset']}" in reset.out, reset.err

    mirrored, records = here.target_records(), here.assert_same_records()
    for pid in halted:
        os.kill(pid, signal.SIGCONT)
    produce(flow, FIRST, start=BEHIND_THE_LOAD)
    eventually(lambda: {row["stop_cause"] for row in flow.query("flow_status")} <= REFUSED, "it has stopped")
    assert here.target_records() == mirrored, "it writes nothing"
    here.finish(spark)
    here.assert_faithful(at_least=records + FIRST)


def _commit(flow: FlowUnderTest, offset: int) -> None:
    """As soon as the cluster has a coordinator for the group, which a fresh one has not."""

    def is_done() -> bool:
        try:
            flow.commit(GROUP, 0, offset=offset)
        except KafkaException:
            return False
        return True

    eventually(is_done, "the group commits")


def _assert_commits_are_unknown(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    """What the group committed behind the cut is in no row; no command goes by what it had committed before."""
    asked = ("offsets", "translate", "--flow", FLOW)
    shown = command(capsys, flow.config, *asked, "-o", "json")
    assert shown.code == 0
    assert "nobody has read them since. What groups have committed is unknown" in shown.err
    for refused in (
        command(capsys, flow.config, *asked, "-o", "kafka-reset", *NO_COMMIT),
        command(capsys, flow.config, "offsets", "set", "--flow", FLOW, "--group", GROUP, "--reason", "x"),
        command(capsys, flow.config, "status", "--check"),
    ):
        assert (refused.code, "is unknown" in refused.err + refused.out) == (4, True), refused.err


def _assert_every_offset_translates(flow: FlowUnderTest) -> None:
    """To where a consumer finds the record at the target that one finds at that offset of the source."""
    source = read_topics(flow.pair["east"].bootstrap_servers, [flow.topic])
    target = read_topics(flow.pair["west"].bootstrap_servers, [flow.target_topic])
    expected: dict[tuple[int, int], int] = {}
    for (_, partition), records in source.items():
        copies = {placed.record: placed.offset for placed in target[(flow.target_topic, partition)]}
        assert len(copies) == len(records), "no two records are equal"
        expected |= {(partition, placed.offset): copies[placed.record] for placed in records}
    at = answers.snapshot(flow.config, None)
    ends = {place: records[-1].offset + 1 for place, records in source.items()}
    commits = {"checkpoints": every_offset(ends, topic_ids(at))}
    query = catalog.query("offset_translation")
    sides = {"from_cluster": "east", "to_cluster": "west", "flow": FLOW}
    found = sql.run_query(query, sides, at, commits).to_pylist()
    translated = {
        (row["source_partition"], row["committed_offset"]): row["target_offset"]
        for row in found
        if row["status"] == "exact"
    }
    assert translated == expected
