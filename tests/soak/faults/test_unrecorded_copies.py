"""A driver dies by kill -9 with copies that it had not recorded, and meanwhile a log loses its beginning.

The simulator tells both stories too: `test_single_faults`.
"""

import time

import pytest
from confluent_kafka import Producer

from ledger.sandbox.reading import read_topics
from tests.support import recorded
from tests.support.flows import PARTITIONS, FlowUnderTest, delete_all, expired, flow_under_test, produce
from tests.support.runs import FLOW, run
from tests.support.site import RealSite
from tests.support.waiting import eventually

NOTHING_RECORDED_S = 120.0  # a round whose end the first driver does not live to see
FIRST = 300
HOUR_MS = 3_600_000


def die_unrecorded(flow: FlowUnderTest, *, records: int) -> None:
    """A driver copies so many records and is killed, with all that it had started, before its round ends."""
    driver = flow.start()
    eventually(lambda: flow.target_records() == records, f"{records} records on the target")
    driver.kill_with_workers()
    assert flow.recorded_records() == 0


def beat(flow: FlowUnderTest, start_ms: int, count: int) -> None:
    """Heartbeats on every partition, a second apart, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": flow.pair["east"].bootstrap_servers, "linger.ms": 0})
    for second in range(count):
        for partition in range(PARTITIONS):
            producer.produce(flow.topic, b"up", b"host-1", partition, timestamp=start_ms + 1000 * second)
        assert producer.flush(30) == 0


def beats(servers: str, topic: str) -> dict[int, list[int]]:
    """By partition the times of what a reader sees."""
    found = read_topics(servers, [topic])
    return {
        partition: [one.record.timestamp_ms for one in placed] for (_, partition), placed in found.items()
    }


@pytest.mark.fault(12, 32)
def test_heartbeats_that_follow_a_loss_are_copied_though_equal_ones_were_copied_before(
    site: RealSite,
) -> None:
    with flow_under_test(
        site.pair, site.folder, "heartbeats", 'on_loss = "continue"', round_seconds=NOTHING_RECORDED_S
    ) as flow:
        begun_ms = int(time.time() * 1000) - 2 * HOUR_MS
        beat(flow, begun_ms, 5)
        die_unrecorded(flow, records=5 * PARTITIONS)
        delete_all(site.pair["east"].bootstrap_servers, flow.topic)
        beat(flow, begun_ms + HOUR_MS, 5)
        flow.finish(site.spark)
        times = [start + 1000 * n for start in (begun_ms, begun_ms + HOUR_MS) for n in range(5)]
        copied = beats(site.pair["west"].bootstrap_servers, flow.target_topic)
        assert copied == dict.fromkeys(range(PARTITIONS), times)
        told = {(row["kind"], row["cause"]) for row in recorded.rows(flow.config, "offset_syncs")}
        assert ("unpaired", "lost_source") in told
        assert recorded.broken_invariants(flow.config) == {}


@pytest.mark.fault(83)
def test_an_exclusive_target_that_deleted_what_was_not_recorded_stops_until_it_is_accepted(
    site: RealSite,
) -> None:
    with flow_under_test(site.pair, site.folder, "expired", round_seconds=NOTHING_RECORDED_S) as flow:
        produce(flow, FIRST)
        die_unrecorded(flow, records=FIRST)
        delete_all(site.pair["west"].bootstrap_servers, flow.target_topic)
        produce(flow, FIRST, start=FIRST)
        assert len(run(flow.config, site.spark).stopped) == PARTITIONS
        site.done(flow.config, "accept-foreign", FLOW, "--topic", flow.topic)
        flow.finish(site.spark)
        assert flow.assert_same_records() == 2 * FIRST
        assert expired(flow) == [(FIRST // PARTITIONS, FIRST // PARTITIONS)] * PARTITIONS
        assert recorded.broken_invariants(flow.config) == {}
