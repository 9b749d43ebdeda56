"""What an apply has made so far is verified and taken back, on real brokers."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.recorders.observation import Subject
from ledger.sandbox.workload import create_topics
from tests.support.commands import command
from tests.support.following import Pair, config_of, copying, name_of, produce, values
from tests.support.plans import OFTEN, planned, receipts, verified
from tests.support.recorded import operations, rows
from tests.support.runs import FLOW, running
from tests.support.waiting import eventually

_SHUT = (
    "--fence",
    "shut",
    "--accept=producers_stopped",
    "--quiet-seconds",
    "0.2",
    "--most-quiet-seconds",
    "2",
    "--accept=mirror_not_shut_out",
)


def is_recorded(config: MirrorConfig, topic: str, end: int) -> bool:
    """Whether a high watermark of the source is in the ledger."""
    found = rows(config, "high_watermarks")
    return any((row["cluster"], row["topic"], row["high_watermark"]) == ("east", topic, end) for row in found)


def test_a_promotion_is_taken_back_and_the_mirror_goes_on(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    east, west = (broker_pair[alias].bootstrap_servers for alias in ("east", "west"))
    topic = name_of("orders")
    config = config_of(tmp_path, broker_pair, {FLOW: copying(topic, OFTEN, 'topic_naming = "identity"')})
    init_ledger(config)
    create_topics(east, [topic], partitions=1)
    with running(config, spark, recorded=frozenset(Subject)):
        for end, value in enumerate("abc", start=1):
            produce(east, topic, value)
            eventually(partial(is_recorded, config, topic, end), "how long writers pause is recorded")
        asked = (*_SHUT, "--no-reverse")
        plan_id = planned(capsys, config, "switchover", *asked, "--hook", "start_applications=false")
        stuck = command(capsys, config, "apply", plan_id, "--reason", "a drill", "--yes")
        assert stuck.code == 5, stuck.err
        healthy = {"is_source_reached": True, "drift": [], "doctor": []}
        assert receipts(config)["check"]["read_back"] == healthy
        operation = rows(config, "operations")[-1]["operation_id"]
        code, found = verified(capsys, config, operation)
        assert (code, found["steps"], found["promoted"], found["fence"]) == (4, "not_ok", "ok", "ok")
        undone = command(capsys, config, "undo", operation, "--reason", "back", "--yes")
        assert undone.code == 0, undone.err
        produce(east, topic, "d")
        eventually(lambda: values(west, topic) == [b"a", b"b", b"c", b"d"], "the mirror is at work again")
    assert len(operations(config, "undone")) == len(operations(config, "undo_begun")) == 1
