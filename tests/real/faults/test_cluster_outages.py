"""A whole cluster away for a while under a running flow, for good under one that is to end, or back as it was."""

import json
import shlex
import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ledger.sandbox import Sandbox
from ledger.sandbox.reading import read_topics
from tests.support.commands import command
from tests.support.drivers import descendants, is_running
from tests.support.flows import FlowUnderTest, flow_under_test, produce
from tests.support.outages import assert_a_run_ends_with_an_error_while_away
from tests.support.recorded import query
from tests.support.runs import FLOW, run
from tests.support.site import RealSite
from tests.support.waiting import eventually

COUNT = 3_000
SEEN_WITHIN_S = 20.0
BEGUN_WITHIN_S = 8.0


@pytest.fixture
def flow(flow: FlowUnderTest, broker_pair_sandbox: Sandbox) -> Iterator[FlowUnderTest]:
    yield flow
    for alias in ("east", "west"):
        broker_pair_sandbox.start(alias)


def is_told(flow: FlowUnderTest, alias: str, *, after: int) -> bool:
    return alias in flow.told()[after:]


def holds(flow: FlowUnderTest, records: int) -> bool:
    """At the target, and recorded: what is recorded later has nothing to do with an outage."""
    return flow.target_records() == flow.recorded_records() == records


def attention(flow: FlowUnderTest, capture: pytest.CaptureFixture[str]) -> str | None:
    """Why `status --check` does not pass; None when it does."""
    done = command(capture, flow.config, "status", "--check")
    assert done.code in (0, 4), done.err
    return " ".join(done.out.split()) if done.code == 4 else None


def assert_an_outage_is_told(
    flow: FlowUnderTest, capture: pytest.CaptureFixture[str], side: str, alias: str, *, since_s: float
) -> None:
    """First of all, soon, and with the time at which it began."""
    words = f"{FLOW}: {side} {alias} does not answer since 20"
    within_s = SEEN_WITHIN_S - (time.time() - since_s)
    eventually(lambda: words in (attention(flow, capture) or ""), "status --check says so", within_s=within_s)
    [report] = json.loads(command(capture, flow.config, "status", "-o", "json").out)
    outage = report["outages"][0]
    assert (outage["finding"], outage["side"], outage["topic"]) == (f"{side}_unreachable", side, None)
    assert abs(outage["since_ms"] / 1000 - since_s) < BEGUN_WITHIN_S
    assert alias in outage["message"]


def assert_it_is_over(flow: FlowUnderTest, side: str, alias: str, *, since_s: float, until_s: float) -> None:
    """Kept, with its beginning and its end."""
    own = f"{side}_unreachable"

    def seen() -> list[dict[str, object]]:
        rows = query(flow.config, "cluster_reach")
        return [row for row in rows if row["cluster"] == alias and row["finding"] == own and not row["topic"]]

    eventually(lambda: all(row["until_ms"] for row in seen()), "the outage is over")
    [row] = seen()
    assert (row["writer"], row["flow"], row["what"]) == (f"flow:{FLOW}", FLOW, "unreachable")
    assert abs(float(str(row["since_ms"])) / 1000 - since_s) < BEGUN_WITHIN_S
    assert -1 < float(str(row["until_ms"])) / 1000 - until_s < BEGUN_WITHIN_S


@pytest.fixture
def bounded(site: RealSite, tmp_path: Path) -> Iterator[FlowUnderTest]:
    """Another flow, of which a run is to end when it has caught up; it has copied all that there is so far."""
    folder = tmp_path / "bounded"
    folder.mkdir()
    with flow_under_test(site.pair, folder, "bounded") as made:
        produce(made, COUNT)
        made.finish(site.spark)
        yield made


@pytest.mark.fault(4, 5, 6, 38)
def test_a_flow_outlives_an_outage_of_either_cluster(
    site: RealSite, flow: FlowUnderTest, bounded: FlowUnderTest
) -> None:
    """A run until caught up ends with an error while the source is away."""
    produce(flow, COUNT)
    driver = flow.start()
    eventually(partial(holds, flow, COUNT), "all records on the target")
    for number, (side, alias) in enumerate([("source", "east"), ("target", "west")], start=1):
        seen = len(flow.told())
        site.sandbox.kill(alias)
        away_s = time.time()
        if alias == "west":  # something is to be copied while the target is away
            produce(flow, COUNT, start=number * COUNT)
        assert_an_outage_is_told(flow, site.capsys, side, alias, since_s=away_s)
        eventually(partial(is_told, flow, alias, after=seen), "the trouble is told")
        if alias == "east":
            assert_a_run_ends_with_an_error_while_away(bounded, site.spark, alias)
        recorded = flow.rows("offset_syncs")
        assert driver.process.poll() is None, "an outage does not end a flow"
        assert flow.rows("offset_syncs") == recorded, "nothing is recorded as copied"
        site.sandbox.start(alias)
        back_s = time.time()
        if alias == "east":
            produce(flow, COUNT, start=number * COUNT)
        eventually(partial(holds, flow, (number + 1) * COUNT), "all records after it")
        assert_it_is_over(flow, side, alias, since_s=away_s, until_s=back_s)
    eventually(lambda: attention(flow, site.capsys) is None, "nothing needs attention any more")
    assert {row["writer"] for row in query(flow.config, "cluster_reach")} >= {f"flow:{FLOW}", "recorder:west"}
    started, before = descendants(driver.process.pid), len(flow.told())
    assert driver.ask_all_to_stop(signal.SIGTERM) == 0
    eventually(lambda: not any(is_running(pid) for pid in started), "its JVM and workers have ended")
    last = flow.told()[before:]
    assert [word for word in ("Traceback", "Exception", "Error", "unexpectedly") if word in last] == [], last
    assert "copying again" in flow.told()
    flow.finish(site.spark)
    flow.assert_faithful(at_least=3 * COUNT)
    bounded.finish(site.spark)
    bounded.assert_faithful(at_least=COUNT)


@pytest.mark.fault(10)
def test_a_source_that_is_back_from_a_copy_of_its_folders_has_each_of_its_records_copied(
    site: RealSite, flow: FlowUnderTest
) -> None:
    """It had all its offsets and epochs before, and is longer than what was copied when it is read again."""
    data, copy = site.sandbox.data("east"), flow.log.with_name("east")
    produce(flow, 3_000)
    site.sandbox.stop("east")
    shutil.copytree(data, copy)
    site.sandbox.start("east")
    produce(flow, 600, start=10_000)
    flow.finish(site.spark)
    assert flow.assert_same_records() == 3_600
    site.sandbox.stop("east")
    shutil.rmtree(data)
    shutil.copytree(copy, data)
    site.sandbox.start("east")
    produce(flow, 900, start=20_000)
    assert run(flow.config, site.spark).is_unfinished
    done = command(site.capsys, flow.config, "status", "--check", "-o", "json")
    assert done.code == 4, done.err
    [stopped] = json.loads(done.out)[0]["stopped"]
    assert (stopped["cause"], stopped["partitions"]) == ("source_truncated", [0, 1, 2])
    assert "from offset 1000 on it holds others than those that were copied" in stopped["message"]
    for line in stopped["commands"]:
        done = command(site.capsys, flow.config, *shlex.split(line)[1:])
        assert done.code == 0, done.err
    flow.finish(site.spark)
    source = read_topics(flow.pair["east"].bootstrap_servers, [flow.topic])
    target = read_topics(flow.pair["west"].bootstrap_servers, [flow.target_topic])
    for (_, partition), placed in source.items():
        copied = [one.record for one in target[flow.target_topic, partition]]
        assert copied[:1_000] + copied[1_200:] == [one.record for one in placed]
        assert len(placed) == 1_300
