"""Clusters of every release from 2.8 to the newest at both sides: mirrored, left by plan, and failed over."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.config.mirror import MirrorConfig
from ledger.doctor.checks import Verdict
from ledger.doctor.examination import examine
from ledger.recorders.observation import Subject
from ledger.sandbox.log_gaps import (
    CLEANED_QUICKLY,
    KEPT_AS_IT_IS,
    RECORDS_ARE_OLDER_BY_MS,
    configure,
    produce_compacted,
    produce_transfers,
    wait_until_cleaned,
)
from ledger.sandbox.reading import read_topics
from ledger.sandbox.state import NEWEST
from ledger.sandbox.workload import RecordSource, Workload, create_topics, produce_events
from tests.support.following import name_of, values
from tests.support.plans import DEAD, SHUT, TravellingApplications, both_ways
from tests.support.recorded import broken_invariants, operations, query, rows
from tests.support.releases import BEFORE_4, FIRST_4, OLD, WITH_ZOOKEEPER, old_clusters
from tests.support.runs import FLOW, run, running
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually

BACK = "west-to-east"
_NEWEST_AT_ONE_SIDE = [(old, NEWEST) for old in (WITH_ZOOKEEPER, OLD, BEFORE_4, FIRST_4)]
PAIRS = [
    *_NEWEST_AT_ONE_SIDE,
    *((newest, old) for old, newest in _NEWEST_AT_ONE_SIDE),
    (WITH_ZOOKEEPER, OLD),
    (OLD, WITH_ZOOKEEPER),
    (WITH_ZOOKEEPER, WITH_ZOOKEEPER),
]


@pytest.fixture(params=PAIRS, ids="-to-".join)
def site(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[RealSite]:
    """Clusters east and west of these releases."""
    releases = dict(zip(("east", "west"), request.param, strict=True))
    with old_clusters(tmp_path / "clusters", releases) as sandbox:
        yield RealSite(sandbox.status(), sandbox, spark, tmp_path, capsys)


def test_every_kind_of_topic_is_mirrored(site: RealSite) -> None:
    east, west = site.servers
    prefix = name_of("kinds") + "-"
    workload = Workload(
        records_per_topic=1_000,
        started_ms=time.time_ns() // 1_000_000 - RECORDS_ARE_OLDER_BY_MS,
        prefix=prefix,
    )
    source = RecordSource(workload)
    produce_events(east, workload, source, lambda: None)
    produce_transfers(east, workload, source)
    compacted = f"{prefix}compacted"
    produce_compacted(east, compacted, source.overwrite(compacted, 2_000, keys=50), CLEANED_QUICKLY)
    wait_until_cleaned(east, compacted)
    configure(east, compacted, KEPT_AS_IT_IS)
    topics = [*workload.event_topics, workload.stamped, workload.transfers, compacted]
    config = site.configured({FLOW: f'topics = ["{prefix}.*"]\ntopic_naming = "identity"'})
    run(config, site.spark, recorded=frozenset(Subject))
    written, copied = read_topics(east, topics), read_topics(west, topics)
    assert {at: [one.record for one in found] for at, found in copied.items()} == {
        at: [one.record for one in found] for at, found in written.items()
    }
    found = examine(config, [], probe=True, retention_share=0.25)
    assert [one for one in found if one.verdict in (Verdict.FAILED, Verdict.UNKNOWN)] == []
    assert broken_invariants(config) == {}


def test_applications_go_there_by_plan_and_come_home_by_failover(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=2)
    shop, desk = Shop(topic, 2), Desk(name_of("billing"))
    leg = TravellingApplications(site.folder, shop, desk, east, west)
    with site.running(config), beside(leg.work):
        eventually(lambda: desk.is_at_work(200), "the group is at work")
        eventually(lambda: query(config, "flow_positions", flow=FLOW) != [], "the flow is at work")
        plan_id = site.planned(
            config, "switchover", *SHUT, "--topic", topic, "--group", desk.group, *leg.hooks
        )
        [cut] = site.done(config, "apply", plan_id, "--reason", "a drill", "--yes").out.split()
    assert operations(config, "apply_ended")[-1]["figures"]["records_lost"] == 0

    with running(config, site.spark, BACK, from_cut=cut, recorded=frozenset(Subject)):
        with desk.open(west, [topic]):
            shop.sell(west, 200)
            eventually(
                lambda: sorted(desk.processed) == sorted(shop.written), "all is processed", within_s=60
            )
        eventually(lambda: sorted(values(east, topic)) == sorted(shop.written), "all is copied", within_s=60)
        eventually(lambda: is_recorded(config, desk), "what the group committed is recorded")
    site.sandbox.kill("west")
    groups = ("--topic", topic, "--group", desk.group, "--accept=mirror_not_shut_out")
    plan_id = site.planned(config, "failover", *DEAD, *groups, way=("west", "east"))
    site.done(config, "apply", plan_id, "--reason", "west is dead", "--yes")
    with desk.open(east, [topic]):
        shop.sell(east, 100)
        eventually(lambda: set(desk.processed) >= set(shop.written), "all is processed", within_s=60)
    assert shop.refused == []
    assert sorted(desk.processed) == sorted(shop.written)
    assert broken_invariants(config) == {}


def is_recorded(config: MirrorConfig, desk: Desk) -> bool:
    """Whether the ledger has what the group has committed at west in the end."""
    of_group = [row for row in rows(config, "checkpoints") if row["group_id"] == desk.group]
    last = {row["partition"]: int(row["committed_offset"]) for row in of_group if row["cluster"] == "west"}
    return sum(last.values()) == len(desk.processed)
