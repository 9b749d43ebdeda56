"""A failover is rehearsed and drilled before it comes: what is promised is what consumers read, and nothing is left."""

import json
import re
import time
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import OFFSET_STORED, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from ledger.changeover import drilling
from ledger.config.mirror import MirrorConfig
from ledger.sandbox.reading import Record, is_end, placed, position, reader_properties
from ledger.sandbox.workload import create_topics
from tests.support.following import name_of, values
from tests.support.plans import both_ways, lost_now
from tests.support.recorded import broken_invariants, operations, query, rows
from tests.support.runs import FLOW
from tests.support.shops import Shop
from tests.support.site import RealSite
from tests.support.waiting import eventually

WAY = ("--from", "east", "--to", "west")
ALONE = ("--accept", "mirror_not_shut_out")
"""These brokers have no authorizer."""


class ProcessDied(BaseException):
    """In the middle of a drill."""


def first_records(servers: str, group: str, topic: str) -> dict[int, Record | None]:
    """By partition what a consumer of the group is given first where its commits are; None: nothing is left."""
    consumer = Consumer(reader_properties(servers, group))
    found: dict[int, Record | None] = {}
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_STORED) for partition in (0, 1)])
        deadline = time.monotonic() + 20
        while len(found) < 2 and time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=0.1):
                (_, partition), offset = position(message)
                found.setdefault(partition, None if is_end(message) else placed(message, offset).record)
    finally:
        consumer.close()
    return found


def groups_at(servers: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return {one.group_id for one in admin.list_consumer_groups().result(20).valid}


def rehearsed(site: RealSite, config: MirrorConfig, *words: str) -> dict[str, Any]:
    done = site.command(config, "rehearse", "failover", *WAY, "--now", *words, "-o", "json")
    assert done.code == 4, done.err
    [found] = json.loads(done.out)
    return dict(found)


def codes(found: Mapping[str, Any]) -> set[str]:
    return {one["code"] for one in found["blockers"]}


def is_recorded(config: MirrorConfig, group: str, at: Mapping[int, int]) -> bool:
    found = {
        row["partition"]: row["committed_offset"]
        for row in rows(config, "checkpoints")
        if (row["group_id"], row["cluster"]) == (group, "east")
    }
    return found == at


def commit(servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """As a member does that has processed so much and left."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    try:
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        consumer.commit(offsets=wanted, asynchronous=False)
    finally:
        consumer.close()


@pytest.mark.fault(4)
def test_what_is_promised_is_what_consumers_read(site: RealSite, monkeypatch: pytest.MonkeyPatch) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=2)
    shop, billing, own = Shop(topic, 2), name_of("billing"), f"drill-{name_of('press')}"
    asked = ("--topic", topic, "--group", billing, "--group", own)
    try:
        shop.sell(east, 300)
        with site.running(config):
            at = {billing: {0: 120, 1: 41}, own: {0: 7, 1: 150}}
            for group, offsets in at.items():
                commit(east, group, topic, offsets)
            shop.sell(east, 60)
            eventually(lambda: all(is_recorded(config, *one) for one in at.items()), "commits are recorded")
            eventually(lambda: len(values(west, topic)) == 360, "all is copied")
            eventually(
                lambda: sum(row["map_end"] or 0 for row in lost_now(config).values()) == 360, "recorded"
            )
            before_groups = groups_at(west)

            with monkeypatch.context() as patched:
                patched.setattr(drilling, "_remove", _die)
                with pytest.raises(ProcessDied):
                    site.command(config, "drill", *WAY, *asked, *ALONE)
            for group in at:
                there = first_records(west, f"drill-{group}", topic)
                assert there == first_records(east, group, topic)
                assert None not in there.values()
            assert operations(config, "drilled") == []

            done = site.done(config, "drill", *WAY, *asked, *ALONE, "-o", "json")
            assert f"removed 'drill-{billing}'" in done.err
            assert {row["group_id"]: (row["places"], row["same"]) for row in json.loads(done.out)} == {
                billing: (2, 2),
                own: (2, 2),
            }
            assert groups_at(west) == before_groups, "nothing is left"
            [drilled] = operations(config, "drilled")
            assert (drilled["verdict"], drilled["problems"]) == ("passed", [])
            assert len(drilled["removed"]) == 2
            assert (drilled["records_lost"], drilled["read_seconds"] > 0) == (0, True)
            assert re.search(r"drilled +a failover, .* ago\): passed", site.done(config, "status").out)

            found = rehearsed(site, config, *asked)
            assert (found["source_answers"], found["silent_seconds"]) == (True, 0.0)
            assert (found["groups"], found["groups_stuck"], found["repeated"]) == (2, 0, 0)
            assert found["last_drill"]["verdict"] == "passed"
            assert "source_answers" in codes(found)

            site.done(config, "pause", FLOW, "--reason", "a rehearsal", "--wait", "60")
            shop.sell(east, 40)
            eventually(
                lambda: sum(row["records_at_risk"] or 0 for row in lost_now(config).values()) == 40, "it lags"
            )
            killed_ms = time.time_ns() // 1_000_000
            site.sandbox.kill("east")
            done = site.command(config, "drill", *WAY, *asked, *ALONE, "-o", "json")
            assert done.code == 4
            assert "east does not answer" in done.err
            assert operations(config, "drilled")[-1]["verdict"] == "incomplete"
            assert groups_at(west) == before_groups

            eventually(lambda: query(config, "cluster_reach") != [], "the outage is recorded")
            found = rehearsed(site, config, *asked)
            lost = len(set(shop.written) - set(values(west, topic)))
            assert (found["source_answers"], found["records_lost"], lost) == (False, 40, 40)
            assert found["records_at_least"] <= lost <= found["records_at_most"]
            assert found["failing_since_ms"] >= killed_ms - 5_000
            assert found["silent_seconds"] >= (found["at_ms"] - found["failing_since_ms"]) / 1000
            assert "source_answers" not in codes(found)
        recorded = {row["group_id"] for row in rows(config, "checkpoints")}
        assert own in recorded, "an application may have such a name"
        assert f"drill-{billing}" not in recorded, "a drill is nobody's"
        assert broken_invariants(config) == {}
    finally:
        site.sandbox.start("east")


def _die(*_asked: object) -> None:
    raise ProcessDied
