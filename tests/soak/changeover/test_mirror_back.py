"""Mirroring back once more: extras that nobody had decided about, and a driver of the way back that died."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka import Producer

from ledger.changeover.left_behind import groups_left
from ledger.context import Context
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.batches import batches
from ledger.recorders.observation import Subject
from ledger.sandbox.workload import create_topics
from tests.support.drivers import Driver, environment
from tests.support.following import admin_of, name_of, values
from tests.support.outages import lost
from tests.support.plans import DEAD, SHUT, TravellingApplications, both_ways
from tests.support.recorded import Row, broken_invariants, operations, query, rows
from tests.support.runs import FLOW, run, running
from tests.support.shops import Desk, Shop, beside, transaction
from tests.support.site import RealSite
from tests.support.typed_plans import printed
from tests.support.waiting import eventually
from tests.support.way_home import BACK, WAY, WHY, WayHome


def test_what_a_dead_driver_had_copied_is_no_extra_though_nobody_had_recorded_it(site: RealSite) -> None:
    east, west = site.servers
    way = WayHome.begun(site, nothing_recorded_by=FLOW)
    config, shop, desk, topic = way.config, way.shop, way.desk, way.shop.topic
    driver = Driver(config, site.folder / "driver.log")
    try:
        eventually(lambda: query(config, "flow_positions", flow=FLOW) != [], "the flow is known")
        shop.sell(east, 120)
        eventually(lambda: len(values(west, topic)) == 220, "all of it is copied", within_s=60)
        driver.kill_with_workers()
    finally:
        driver.end()
    recorded = query(config, "flow_status", flow=FLOW)
    assert sum(row["records"] for row in recorded) == 100, "the driver has not lived to record the rest"
    way.extra.sell(east, 20)
    site.done(config, "record", "east", "--once")
    way.fail_over()
    with shop.selling(west), desk.open(west, [topic]):
        cut = way.mirror_back(
            f"{FLOW}: 120 records that nobody had recorded paired with east",
            f"extras at east: {topic} partition 0: 10 offsets (110 to 119)",
            "20 offsets stay at east",
            is_listed_first=False,
        )
    cut = way.go_home(cut)
    assert run(config, site.spark, from_cut=cut).is_unfinished is False
    way.require_all_once()


@pytest.mark.parametrize("policy", ["replicate", "salvage"])
def test_groups_read_nothing_again_though_extras_lie_in_front_of_what_returns(
    site: RealSite, policy: str
) -> None:
    """But for what a group had read at east, where they are replicated; salvaged they have a topic of their own."""
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=2)
    desk, reader = Desk(name_of("billing")), Desk(name_of("audit"))
    way = WayHome(site, config, Shop(topic, 2), Shop(topic, 2, _number=1_000_000), desk, [reader])
    shop, extra = way.shop, way.extra
    with site.running(config):
        with desk.open(east, [topic]), reader.open(east, [topic]):
            shop.sell(east, 200)
            eventually(lambda: len(desk.processed) == len(reader.processed) == 200, "both groups are at work")
        eventually(lambda: query(config, "flow_positions", flow=FLOW) != [], "the flow is at work")
        eventually(lambda: set(values(west, topic)) >= set(shop.written), "all of it is copied")
        site.done(config, "pause", FLOW, "--reason", "extras are made", "--wait", "60")
        extra.sell(east, 32)
        with reader.open(east, [topic]):
            eventually(lambda: len(reader.processed) == 232, "one group has read them")
        way.fail_over()
        with Context(config) as context:
            with reader.open(east, [topic]):
                eventually(
                    lambda: groups_left(context, "east", [topic]).members == (reader.group,),
                    "who is at work at east is named",
                )
                assert groups_left(context, "east", [name_of("other")]).members == ()
            eventually(lambda: groups_left(context, "east", [topic]).words is None, "nobody is")
        at_work = site.command(config, "mirror-back", *WAY, "--extras", "keep", *WHY)
        assert (at_work.code, f"mirror-ledger stop {FLOW}" in at_work.err) == (5, True), at_work.err
    with reader.open(west, [topic]), shop.selling(west), desk.open(west, [topic]):
        cut = way.mirror_back(
            f"extras at east: {topic} partition 0: 16 offsets (100 to 115): 16 records,",
            f"; read by '{reader.group}' (16)",
            *_said_of(policy, topic),
            is_listed_first=True,
            extras=f"{topic}={policy}",
        )
        if policy == "replicate":
            for one in (desk, reader):
                eventually(lambda one=one: set(one.processed) >= set(extra.written), "it reads the copies")  # type: ignore[misc]
            eventually(lambda: reader.repeated.total() == 32, "one reads them a second time")
    cut = way.go_home(cut)
    with running(config, site.spark, from_cut=cut):
        site.done(config, "resume", FLOW, "--reason", "they are made", "--wait", "60")
        way.require_all_once(are_replicated=policy == "replicate")
    if policy == "salvage":
        assert sorted(values(west, f"{topic}.salvaged")) == sorted(extra.written)
        assert reader.repeated == {}
    else:
        assert reader.repeated == Counter(extra.written), "what it had read at east, and nothing else"
    assert set(reader.processed) == {*shop.written, *extra.written}


def _said_of(policy: str, topic: str) -> tuple[str, ...]:
    if policy == "salvage":
        return "32 offsets stay at east", f"{FLOW}.salvaged: 32 records in {topic}.salvaged"
    return "nothing stays at east alone", f"{FLOW}: 32 records that were left came to {topic}"


def test_extras_in_front_of_what_came_back_already_are_decided_as_the_plan_says(site: RealSite) -> None:
    east, west = site.servers
    way = WayHome.begun(site)
    config, shop, desk, topic = way.config, way.shop, way.desk, way.shop.topic
    way.extra.sell(east, 8)
    site.done(config, "record", "east", "--once")
    way.fail_over()
    with desk.open(west, [topic]):
        shop.sell(west, 40)
        eventually(lambda: len(desk.processed) == 140, "the group is at work there")
    site.done(config, "fence", "east", "--how", "shut", "--accept=producers_stopped", *WHY)
    [cut] = site.done(config, "cut", "--from", "east", "--to", "west").out.split()
    site.done(config, "unfence", "east", *WHY)
    site.done(config, "hand-over", "apply", "--from", "east", "--to", "west", "--for", "mirror", *WHY)
    home = TravellingApplications(site.folder, shop, desk, west, east)
    options = (*SHUT, "--topic", topic, *way.groups, "--accept", "no_commit", *home.hooks)
    with running(config, site.spark, BACK, from_cut=cut, recorded=frozenset(Subject)):
        eventually(lambda: len(values(east, topic)) == 148, "what was written there came back")
        blocked: dict[str, str] = {}

        def is_blocked() -> bool:
            refused = site.command(config, "plan", "switchover", *WAY, *options, "-o", "json")
            found = {one["code"]: one for one in json.loads(refused.out)[0]["blockers"]}
            blocked.update(found.get("extras_at_target", {}))
            return bool(blocked)

        eventually(is_blocked, "what came back is recorded, and what lies in front of it")
        assert f"{topic} (8 offsets)" in blocked["words"]
        planned = site.done(config, *shlex.split(printed(blocked["advice"]))[1:])
        [plan_id] = re.findall(r"^plan (\w+): failback", planned.out)

        def mirrored_back(ended: Event) -> None:
            while not ended.wait(0.2):
                if "catch_up" in {one["step"] for one in operations(config, "step_begun")}:
                    with running(config, site.spark, BACK, recorded=frozenset(Subject)):
                        ended.wait()

        with beside(home.work), beside(mirrored_back):
            before = len(shop.written)
            eventually(lambda: len(shop.written) > before + 100, "applications are at work")
            site.done(config, "apply", plan_id, "--reason", "home again", "--yes")
    assert operations(config, "extras_decided") != []
    assert desk.processed[:140] == shop.written[:140]
    assert sorted(desk.processed) == sorted(shop.written)
    assert broken_invariants(config) == {}


def test_what_a_dead_driver_of_the_way_back_had_written_is_recorded_before_anything_is_decided(
    site: RealSite,
) -> None:
    east, west = site.servers
    way = WayHome.begun(site, nothing_recorded_by=BACK)
    config, shop, desk, topic = way.config, way.shop, way.desk, way.shop.topic
    site.done(config, "record", "east", "--once")
    way.fail_over()
    with desk.open(west, [topic]):
        shop.sell(west, 40)
        eventually(lambda: len(desk.processed) == 140, "the group is at work there")
    cut = way.mirror_back("east has nothing that was never copied", is_listed_first=False)
    driver = Driver(config, site.folder / "driver.log", ("--from-cut", cut), flow=BACK)
    try:
        eventually(lambda: query(config, "flow_positions", flow=BACK) != [], "the flow is known")
        eventually(lambda: len(values(east, topic)) == 140, "it is copied back", within_s=60)
        shop.sell(west, 20)
        eventually(lambda: len(values(east, topic)) == 160, "what came in a later round as well", within_s=60)
        driver.kill_with_workers()
    finally:
        driver.end()
    recorded = query(config, "flow_status", flow=BACK)
    assert sum(row["records"] for row in recorded) <= 40, "the driver has not lived to record the rest"
    shut = ("fence", "east", "--how", "shut", "--accept=producers_stopped", *WHY)
    site.done(config, *shut)
    refused = site.command(config, "mirror-back", *WAY, "--extras", "keep", *WHY)
    assert (refused.code, operations(config, "extras_decided")) == (5, []), refused.err
    assert f"mirror-ledger run {BACK} --until-caught-up" in refused.err
    site.done(config, "unfence", "east", *WHY)
    run(config, site.spark, BACK)
    cut = way.mirror_back("east has nothing that was never copied", is_listed_first=False)
    way.go_home(cut)
    assert sorted(values(east, topic)) == sorted(shop.written)
    assert sorted(desk.processed) == sorted(shop.written)
    assert broken_invariants(config) == {}


def test_of_a_compacted_topic_every_version_of_a_key_is_salvaged_and_those_are_replicated_that_nothing_overtook(
    site: RealSite,
) -> None:
    east, west = site.servers
    topic = name_of("prices")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=1, configuration={"cleanup.policy": "compact"})
    _keyed(east, topic, b"e0", b"e1")
    run(config, site.spark)
    site.done(config, "promote", "west", "--over", "east", "--topic", topic, *WHY)
    _keyed(east, topic, b"e2", b"e3", None)
    _keyed(west, topic, b"w0")
    fence = ("fence", "east", "--topic", topic, "--how", "shut", "--accept=producers_stopped", *WHY)
    site.done(config, *fence)
    back = ("mirror-back", *WAY, "--topic", topic, *WHY)
    site.done(config, *back, "--extras", "salvage")
    assert values(west, f"{topic}.salvaged") == [b"e2", b"e3", b""]
    assert values(west, topic) == [b"e0", b"e1", b"w0"]
    site.done(config, "unfence", "east", "--topic", topic, *WHY)
    _keyed(east, topic, b"e4")
    _keyed(east, topic, b"s0", None, b"s1", key=b"silver")
    site.done(config, *fence)
    done = site.done(config, *back, "--extras", "replicate")
    assert "1 extra (5) overtaken, west has a newer record of the key: not copied" in " ".join(
        done.err.split()
    )
    assert values(west, topic) == [b"e0", b"e1", b"w0", b"s0", b"", b"s1"]
    assert [one.get("cause") for one in operations(config, "extras_decided")] == [None, "overtaken", None]
    run(config, site.spark, BACK, from_cut=done.out.strip())
    assert values(east, topic) == [b"e0", b"e1", b"e2", b"e3", b"", b"e4", b"s0", b"", b"s1", b"w0"]
    assert broken_invariants(config) == {}


def _keyed(servers: str, topic: str, *written: bytes | None, key: bytes = b"gold") -> None:
    """Values of one key; None is a tombstone."""
    producer = Producer({"bootstrap.servers": servers})
    for value in written:
        producer.produce(topic, value, key=key)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("policy", ["salvage", "replicate"])
def test_a_copy_of_extras_that_was_killed_is_continued_and_nothing_is_there_twice(
    site: RealSite, policy: str
) -> None:
    east, west = site.servers
    way = WayHome.begun(site)
    config, shop, desk, topic = way.config, way.shop, way.desk, way.shop.topic
    is_replicated = policy == "replicate"
    to, flow = (topic, FLOW) if is_replicated else (f"{topic}.salvaged", f"{FLOW}.salvaged")
    extras = _large_extras(east, topic)
    site.done(config, "record", "east", "--once")
    way.fail_over()
    shop.sell(west, 40)
    fence = ("fence", "east", "--how", "shut", "--accept=producers_stopped", "--hold-retention", *WHY)
    site.done(config, *fence)
    asked = ("mirror-back", *WAY, "--extras", policy, *WHY)

    def recorded() -> list[Row]:
        return [row for row in rows(config, "offset_syncs") if row["flow"] == flow and row["records"]]

    before = sum(row["records"] for row in recorded())
    with admin_of(config, "west") as admin:
        began = _records_in(admin, to)
        command = [sys.executable, "-m", "ledger.cli.main", "--config", config.file, *asked]
        with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as process:
            eventually(lambda: _records_in(admin, to) > began, "it copies", within_s=60)
            process.kill()
        copied = _records_in(admin, to) - began
    assert 0 < copied < len(extras), "it was killed in the middle"
    assert sum(row["records"] for row in recorded()) - before < copied, "and had not recorded all of it"
    assert operations(config, "extras_decided") == []
    with shop.selling(west), desk.open(west, [topic]):
        cut = site.done(config, *asked).out.strip()
        if is_replicated:
            site.done(config, *fence)
            again = site.done(config, "mirror-back", *WAY, *WHY)
            assert "east has nothing that was never copied" in again.err
            cut = again.out.strip()
            eventually(lambda: set(desk.processed) >= set(extras), "the group passes them", within_s=60)
    known = set(extras)
    here = [value for value in values(west, to) if not is_replicated or value in known]
    assert sorted(here) == sorted(extras)
    assert {one["policy"] for one in operations(config, "extras_decided")} == {policy}
    assert sum(row["records"] for row in recorded()) - before == len(extras)
    assert any(row["recovered"] for row in recorded())
    way.go_home(cut)
    assert sorted(desk.processed) == sorted([*shop.written, *(extras if is_replicated else ())])
    assert sorted(values(east, topic)) == sorted([*shop.written, *extras])
    assert broken_invariants(config) == {}


def _large_extras(servers: str, topic: str) -> list[bytes]:
    """What is committed of it: records that take seconds to copy, and transactions of which one is aborted."""
    found = [f"{number:08d}".encode() + os.urandom(20_000) for number in range(8_000)]
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.kbytes": 400_000})
    for number, value in enumerate(found):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(60) == 0
    transaction(servers, topic, f"{topic}-aborted", b"aborted-1", b"aborted-2").abort_transaction(10)
    committed = [b"committed-1", b"committed-2"]
    transaction(servers, topic, f"{topic}-committed", *committed).commit_transaction(10)
    return [*found, *committed]


def _records_in(admin: KafkaAdmin, topic: str) -> int:
    if topic not in admin.topics():
        return 0
    return sum(end.high_watermark for end in admin.ends([(topic, 0), (topic, 1)]).values())


def test_what_the_disk_of_a_lost_cluster_lost_comes_back_once_in_order(site: RealSite) -> None:
    east, west = site.servers
    way = WayHome.begun(site)
    config, shop, desk, topic = way.config, way.shop, way.desk, way.shop.topic
    site.done(config, "record", "east", "--once")
    with lost(site.sandbox):
        options = (*DEAD, "--accept=mirror_not_shut_out", *way.groups)
        plan_id = site.planned(config, "failover", *options)
        site.done(config, "apply", plan_id, "--reason", "east is dead", "--yes")
        records = _lose_last_batch(site.sandbox.root / "clusters" / "east" / "node-1" / "data" / f"{topic}-0")
    before = values(west, topic)
    assert len(values(east, topic)) == 100 - records
    way.extra.sell(east, 20)
    with shop.selling(west), desk.open(west, [topic]):
        site.done(
            config,
            *("fence", "east", "--how", "shut", "--accept=producers_stopped", "--hold-retention"),
            *WHY,
        )
        listed = json.loads(site.done(config, "extras", *WAY, "-o", "json").out)
        lacking = [(one["partition"], one["offsets"]) for one in listed if one["what"] == "deficits"]
        assert lacking == [(0, records)], listed
        asked = ("mirror-back", *WAY, "--extras", "keep", *WHY)
        refused = site.command(config, *asked)
        assert (refused.code, "--deficits return" in refused.err) == (4, True), refused.err
        assert operations(config, "extras_decided") == operations(config, "deficits_decided") == []
        cut = site.done(config, *asked, "--deficits", "return").out.strip()
    cut = way.go_home(cut)
    assert run(config, site.spark, from_cut=cut).is_unfinished is False
    way.require_all_once()
    assert set(values(east, topic)) >= set(before)


def _lose_last_batch(folder: Path) -> int:
    """Of a partition of a broker that does not run; returns how many records it held."""
    [file] = folder.glob("*.log")
    found = list(batches(memoryview(file.read_bytes())))
    header, _ = found[-1]
    os.truncate(file, sum(len(batch) for _, batch in found[:-1]))
    return header.count
