"""Groups that a real MirrorMaker 2 has synced follow their source once the flow has taken its topics over."""

import json
from contextlib import closing

import pytest

from ledger.adopt import adopting
from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import GroupListing
from ledger.recorders.observation import Subject
from ledger.sandbox.groups import GroupPlan, consume
from ledger.sandbox.workload import create_topics
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.following import name_of
from tests.support.mirror_maker import mirror_maker
from tests.support.runs import FLOW, running
from tests.support.shops import send, small_source
from tests.support.site import RealSite
from tests.support.waiting import eventually

RECORDS = 60
SYNCING = {
    "emit.checkpoints.enabled": "true",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "offset.lag.max": "0",
}


def test_groups_that_mirror_maker_had_synced_follow_again(
    site: RealSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, servers = name_of("makers"), servers_of(site.pair)
    synced, own = f"{topic}-synced", f"{topic}-own"
    create_topics(servers["east"], [topic], partitions=1)
    send(servers["east"], topic, 0, small_source(topic), RECORDS)
    options = "round_seconds = 1.0\ncheckpoint_seconds = 0.5\nsync_groups = true\nsync_groups_seconds = 0.2"
    config = write_config(
        site.folder, servers, {FLOW: f'{options}\ntopics = ["{topic}"]\ngroups = ["{topic}-.*"]'}
    )
    init_ledger(config)
    with closing(KafkaAdmin("west", config.cluster("west"), SystemClock())) as admin:

        def committed(group: str) -> int | None:
            commits = admin.commits([GroupListing(group, None, None)], topic_ids={})
            return next((one.committed_offset for one in commits), None)

        consume(servers["east"], GroupPlan(synced, {(topic, 0): 20}))
        with mirror_maker(servers, topic, site.folder, more=SYNCING):
            eventually(lambda: committed(synced) is not None, "MirrorMaker has synced it", within_s=90)
        consume(servers["west"], GroupPlan(own, {(f"east.{topic}", 0): 7}))
        consume(servers["east"], GroupPlan(own, {(topic, 0): 30}))
        monkeypatch.setattr(adopting, "_WATCHED_S", 0.2)
        [row] = json.loads(site.command(config, "adopt", FLOW, "-o", "json").out)
        assert f"1 group synced by MirrorMaker taken over: {synced}" in row["remarks"]
        assert f"which sync_groups leaves: {own}" in row["remarks"]
        consume(servers["east"], GroupPlan(synced, {(topic, 0): 33}))
        with running(config, site.spark, recorded=frozenset({Subject.CHECKPOINTS})):
            eventually(lambda: committed(synced) == 33, "it follows")
        assert committed(own) == 7
