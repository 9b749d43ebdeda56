"""A target that deletes what a quiet flow had written, and one whose broker stamps a time of its own."""

from collections.abc import Mapping

import pytest
from confluent_kafka import Producer

from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import read_topics
from tests.support import recorded
from tests.support.copies import Pair, near
from tests.support.flows import PARTITIONS, delete_all, expired, flow_under_test, produce
from tests.support.site import RealSite

FIRST = 300


@pytest.mark.fault(83)
def test_a_shared_target_that_deleted_all_while_the_flow_was_quiet_is_written_to_again(
    site: RealSite,
) -> None:
    west = site.pair["west"].bootstrap_servers
    with flow_under_test(site.pair, site.folder, "quiet", 'target_mode = "shared"') as flow:
        produce(flow, FIRST)
        flow.finish(site.spark)
        theirs = Producer({"bootstrap.servers": west})
        for number in range(60):
            theirs.produce(flow.target_topic, b"theirs", partition=number % PARTITIONS)
        assert theirs.flush(30) == 0
        delete_all(west, flow.target_topic)
        produce(flow, FIRST, start=FIRST)
        flow.finish(site.spark)
        assert sum(map(len, read_topics(west, [flow.target_topic]).values())) == FIRST
        assert flow.recorded_records() == 2 * FIRST
        assert expired(flow) == [(FIRST // PARTITIONS + 20, FIRST // PARTITIONS)] * PARTITIONS
        assert recorded.broken_invariants(flow.config) == {}


@pytest.mark.parametrize("codec", ["producer", "zstd"])
def test_a_broker_that_stamps_its_own_time_leaves_the_base_timestamp(
    broker_pair: Mapping[str, SandboxCluster], codec: str
) -> None:
    """What tells equal records apart at such a target, until its cleaner has written them anew."""
    servers = near(broker_pair)
    settings = {"target": {"message.timestamp.type": "LogAppendTime", "compression.type": codec}}
    with Pair(servers, servers, settings=settings) as pair:
        pair.produce(3, age_ms=3_600_000)
        pair.run()
        sent, stored = pair.stored("source"), pair.stored("target")
        assert all(header.has_log_append_time for header, _ in stored)
        assert [h.base_timestamp for h, _ in stored] == [h.base_timestamp for h, _ in sent]
        assert stored[0][0].max_timestamp > sent[0][0].max_timestamp
