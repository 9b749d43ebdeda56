"""Clusters are recorded while no driver runs; a driver leaves it to `record`, and is left alone by it."""

import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.facts.syncs import WriterEvent
from ledger.recorders import run
from ledger.recorders.observation import Subject
from ledger.recorders.run import record_clusters
from ledger.sandbox import SandboxCluster
from tests.support.commands import command
from tests.support.flows import FlowUnderTest, flow_under_test, produce
from tests.support.recorded import rows
from tests.support.runs import running
from tests.support.shops import beside
from tests.support.waiting import eventually

PACE = "checkpoint_seconds = 1.0\nhigh_watermark_seconds = 1.0\n"


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FlowUnderTest]:
    with flow_under_test(broker_pair, tmp_path, "recording", PACE) as made:
        produce(made, 300)
        yield made


def commits(flow: FlowUnderTest) -> list[int]:
    return [row["committed_offset"] for row in rows(flow.config, "checkpoints") if row["topic"] == flow.topic]


def ends(flow: FlowUnderTest) -> int:
    """How many records the recorded ends of the topic hold."""
    found = [row for row in rows(flow.config, "high_watermarks") if row["topic"] == flow.topic]
    return sum({row["partition"]: row["high_watermark"] for row in found}.values())


def recorder_events(flow: FlowUnderTest, cluster: str) -> list[str]:
    found = [row for row in rows(flow.config, "writers") if row["writer"] == f"recorder:{cluster}"]
    return [row["event"] for row in found if row["event"] != WriterEvent.ALIVE]


def test_groups_and_ends_are_recorded_without_a_driver_and_beside_one(
    flow: FlowUnderTest,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(run, "_ROLE_RETRY_S", 1.0)

    def record(ended: threading.Event) -> None:
        record_clusters(flow.config, [], stop=ended, once=False)

    with beside(record):
        eventually(lambda: ends(flow) == 300, "the ends")
        flow.commit("recorded-group", 1, offset=40)
        eventually(lambda: commits(flow) == [40], "the commit")
        produce(flow, 300, start=300)
        eventually(lambda: ends(flow) == 600, "new ends")
        held = "cluster east is recorded by process"
        with running(flow.config, spark, recorded=frozenset(Subject)):
            eventually(lambda: flow.recorded_records() == 600, "copies")
            eventually(lambda: held in caplog.text, "the driver leaves the role alone")
            assert recorder_events(flow, "east") == [WriterEvent.CLAIMED]
    assert recorder_events(flow, "east") == recorder_events(flow, "west") == ["claimed", "released"]


def test_one_sweep_is_refused_for_a_cluster_that_a_process_records_and_waited_for_otherwise(
    flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(capsys, flow.config, "record", "east", "--once").code == 0
    assert ends(flow) == 300

    def record(ended: threading.Event) -> None:
        record_clusters(flow.config, ["west"], stop=ended, once=False)

    with beside(record):
        eventually(lambda: recorder_events(flow, "west") == ["claimed"], "west is recorded")
        refused = command(capsys, flow.config, "record", "--once")
    assert refused.code == 5
    assert "recorder:west is held by a running recorder; nothing was recorded" in refused.err
    assert recorder_events(flow, "east") == ["claimed", "released"] * 2, "east was read all the same"
    assert command(capsys, flow.config, "record", "--once").code == 0
    assert recorder_events(flow, "west") == ["claimed", "released"] * 2
