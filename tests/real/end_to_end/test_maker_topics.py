"""Checkpoints and heartbeats as MirrorMaker 2 writes them, read by MirrorMaker's own `RemoteClusterUtils`."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from ledger.adopt.synced_groups import makers_checkpoint
from ledger.offsets.maker_topics import checkpoint_record
from ledger.recorders.observation import Subject
from ledger.sandbox.brokers import kafka_jars
from ledger.sandbox.groups import GroupPlan, consume
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics
from tests.support.following import name_of
from tests.support.runs import FLOW, running
from tests.support.shops import send, small_source
from tests.support.site import RealSite
from tests.support.waiting import eventually

RECORDS = 60


@contextmanager
def java() -> Iterator[Any]:
    """The classes of Kafka's jars, in a JVM of their own that ends with the body."""
    [jar] = Path(pyspark.__file__).parent.glob("jars/py4j*.jar")
    port, token = launch_gateway(
        jarpath=str(jar),
        classpath=os.pathsep.join(str(jar) for jar in kafka_jars()),
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


@pytest.mark.parametrize(("metadata", "group"), [(None, "g"), ("at 7", "gruppe-ä")])
def test_what_is_written_is_what_adopt_reads(metadata: str | None, group: str) -> None:
    key, value = checkpoint_record(group, "east.orders", 3, 7, 9, metadata)
    read = makers_checkpoint(key, value)
    assert read is not None
    assert (read.place, read.source_offset, read.target_offset) == ((group, "east.orders", 3), 7, 9)


def test_makers_own_client_translates_by_them_and_finds_heartbeats(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("emitted")
    group, at_target = f"{topic}-group", f"east.{topic}"
    create_topics(east, [topic], partitions=2)
    for partition in range(2):
        send(east, topic, partition, small_source(topic), RECORDS)
    config = site.configured(
        {
            FLOW: f'round_seconds = 1.0\ncheckpoint_seconds = 0.5\nsync_groups_seconds = 0.2\ntopics = ["{topic}"]\n'
            f'groups = ["{group}"]\nemit_checkpoints = true\nemit_heartbeats = true'
        }
    )
    consume(east, GroupPlan(group, {(topic, 0): 20, (topic, 1): 41}))
    with java() as jvm, running(config, site.spark, recorded=frozenset({Subject.CHECKPOINTS})):
        maker = jvm.org.apache.kafka.connect.mirror
        properties = jvm.java.util.HashMap()
        properties.put("bootstrap.servers", west)

        def translated() -> dict[tuple[str, int], int]:
            wait = jvm.java.time.Duration.ofSeconds(2)
            found = maker.RemoteClusterUtils.translateOffsets(properties, "east", group, wait)
            return {
                (one.getKey().topic(), one.getKey().partition()): one.getValue().offset()
                for one in found.entrySet()
            }

        eventually(lambda: translated() == {(at_target, 0): 20, (at_target, 1): 41}, "its client translates")
        consume(east, GroupPlan(group, {(topic, 0): 33, (topic, 1): 41}))
        eventually(lambda: translated() == {(at_target, 0): 33, (at_target, 1): 41}, "and follows")
        heartbeats = list(maker.RemoteClusterUtils.heartbeatTopics(properties))
        assert heartbeats == ["heartbeats"]
        assert list(maker.RemoteClusterUtils.checkpointTopics(properties)) == ["east.checkpoints.internal"]
        began_ms = time.time() * 1000
        eventually(
            lambda: len(read_topics(west, ["heartbeats"])[("heartbeats", 0)]) > 1, "one comes each second"
        )
        last = read_topics(west, ["heartbeats"])[("heartbeats", 0)][-1].record
        read = jvm.org.apache.kafka.clients.consumer.ConsumerRecord("heartbeats", 0, 0, last.key, last.value)
        heartbeat = maker.Heartbeat.deserializeRecord(read)
        assert (heartbeat.sourceClusterAlias(), heartbeat.targetClusterAlias()) == ("east", "west")
        assert abs(heartbeat.timestamp() - began_ms) < 60_000
