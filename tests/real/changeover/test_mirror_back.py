"""The source is lost and comes back with records that were never copied: applications go home, and nothing is read
again."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.config.mirror import MirrorConfig
from ledger.recorders.observation import Subject
from ledger.sandbox.workload import create_topics
from tests.support.drivers import Driver
from tests.support.following import name_of, values
from tests.support.outages import lost
from tests.support.plans import DEAD, SHUT, TravellingApplications, both_ways
from tests.support.recorded import broken_invariants, operations, query, rows
from tests.support.runs import FLOW, run, running
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually

_BACK = "west-to-east"
_WHY = ("--reason", "east is back")
_WAY = ("--from", "west", "--to", "east")
_NOTHING_RECORDED = "round_seconds = 1\n", "round_seconds = 120\n"
"""A round whose end the driver does not live to see."""


@dataclass(frozen=True)
class WayHome:
    """A topic of two partitions, what is written to it, `extra`: at east alone, and groups that read it."""

    site: RealSite
    config: MirrorConfig
    shop: Shop
    extra: Shop
    desk: Desk
    others: Sequence[Desk] = ()

    @property
    def groups(self) -> list[str]:
        return [word for one in (self.desk, *self.others) for word in ("--group", one.group)]

    def fail_over(self) -> None:
        """East is lost, applications move, and east is there again."""
        early = self.site.command(self.config, "mirror-back", *_WAY, "--extras", "keep", *_WHY)
        assert (early.code, "is not promoted over east" in early.err) == (5, True), early.err
        with lost(self.site.sandbox):
            options = (*DEAD, "--accept=mirror_not_shut_out", *self.groups)
            plan_id = self.site.planned(self.config, "failover", *options)
            self.site.done(self.config, "apply", plan_id, "--reason", "east is dead", "--yes")

    def mirror_back(self, *expected: str) -> str:
        """The cut at which the way back begins."""
        early = self.site.command(self.config, "mirror-back", *_WAY, "--extras", "keep", *_WHY)
        assert (early.code, "is not fenced" in early.err) == (5, True), early.err
        self.site.done(self.config, "fence", "east", "--how", "shut", "--accept=producers_stopped", *_WHY)
        refused = self.site.command(self.config, "mirror-back", *_WAY, *_WHY)
        assert (refused.code, refused.out, operations(self.config, "extras_decided")) == (4, "", [])
        done = self.site.done(self.config, "mirror-back", *_WAY, "--extras", "keep", *_WHY)
        words = " ".join(refused.err.split()) + " ".join(done.err.split())
        assert [one for one in expected if one not in words] == [], words
        [cut] = done.out.split()
        assert f"mirror-ledger run {_BACK} --from-cut {cut}" in words
        return cut

    def go_home(self, cut: str) -> str:
        """All of it by a plan, once what was written at west is there; the cut at which east is mirrored again."""
        (east, west), site, config, topic = self.site.servers, self.site, self.config, self.shop.topic
        with running(config, site.spark, _BACK, from_cut=cut, recorded=frozenset(Subject)):
            home = TravellingApplications(site.folder, self.shop, self.desk, west, east)
            with beside(home.work):
                before = len(self.shop.written)
                eventually(lambda: len(self.shop.written) > before + 100, "they are at work")
                options = (*SHUT, "--topic", topic, *self.groups, *home.hooks)
                plan_id = site.planned(config, "switchover", *options, way=("west", "east"))
                [cut] = site.done(config, "apply", plan_id, "--reason", "home again", "--yes").out.split()
            for one in self.others:
                with one.open(east, [topic]):
                    eventually(lambda one=one: set(one.processed) >= set(self.shop.written), "it has all")  # type: ignore[misc]
        return cut

    def require_all_once(self) -> None:
        """Everything is at both sides but what stays at east; groups processed each record once."""
        (east, west), shop, extra = self.site.servers, self.shop, self.extra
        eventually(
            lambda: sorted(values(west, shop.topic)) == sorted(shop.written),
            "what is written at home is copied, and what stays there is not",
            within_s=60,
        )
        assert sorted(values(east, shop.topic)) == sorted([*shop.written, *extra.written])
        assert shop.refused == []
        assert sorted(self.desk.processed) == sorted(shop.written)
        assert operations(self.config, "apply_ended")[-1]["figures"]["records_lost"] == 0
        kept = query(self.config, "one_sided_records", from_cluster="west", to_cluster="east")
        assert {row["status"] for row in kept} == {"kept_local"}
        gaps = [gap for row in rows(self.config, "offset_syncs") for gap in row["gaps"]]
        stayed = [one["source_end"] - one["source_start"] for one in gaps if one["cause"] == "kept_local"]
        assert sum(stayed) == len(extra.written)
        assert broken_invariants(self.config) == {}


def test_groups_read_nothing_again_though_extras_lie_in_front_of_what_returns(site: RealSite) -> None:
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
        eventually(lambda: set(values(west, topic)) >= set(shop.written), "all of it is copied")
        site.done(config, "pause", FLOW, "--reason", "extras are made", "--wait", "60")
        extra.sell(east, 32)
        with reader.open(east, [topic]):
            eventually(lambda: len(reader.processed) == 232, "one group has read them")
        way.fail_over()
        with reader.open(west, [topic]), shop.selling(west), desk.open(west, [topic]):
            cut = way.mirror_back(
                f"extras at east: {topic} partition 0: 16 offsets (100 to 115); read by '{reader.group}'",
                "32 offsets stay at east",
            )
    cut = way.go_home(cut)
    with running(config, site.spark, from_cut=cut):
        site.done(config, "resume", FLOW, "--reason", "they are made", "--wait", "60")
        way.require_all_once()
    assert sorted(reader.processed) == sorted([*shop.written, *extra.written])


def test_what_a_dead_driver_had_copied_is_no_extra_though_nobody_had_recorded_it(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    flows = both_ways(topic)
    config = site.configured({**flows, FLOW: flows[FLOW].replace(*_NOTHING_RECORDED)})
    create_topics(east, [topic], partitions=2)
    way = WayHome(site, config, Shop(topic, 2), Shop(topic, 2, _number=1_000_000), Desk(name_of("billing")))
    shop, desk = way.shop, way.desk
    with desk.open(east, [topic]):
        shop.sell(east, 100)
        eventually(lambda: len(desk.processed) == 100, "the group is at work")
    run(config, site.spark)
    driver = Driver(config, site.folder / "driver.log")
    try:
        eventually(lambda: query(config, "flow_positions", flow=FLOW) != [], "the flow is known")
        shop.sell(east, 120)
        eventually(lambda: len(values(west, topic)) == 220, "all of it is copied", within_s=60)
        driver.kill_with_workers()
    finally:
        driver.end()
    way.extra.sell(east, 20)
    site.done(config, "record", "east", "--once")
    way.fail_over()
    with shop.selling(west), desk.open(west, [topic]):
        cut = way.mirror_back(
            f"{FLOW}: 120 records that nobody had recorded paired with east",
            f"extras at east: {topic} partition 0: 10 offsets (110 to 119)",
            "20 offsets stay at east",
        )
    cut = way.go_home(cut)
    assert run(config, site.spark, from_cut=cut).is_unfinished is False
    way.require_all_once()


def test_extras_in_front_of_what_came_back_already_are_decided_as_the_plan_says(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=2)
    way = WayHome(site, config, Shop(topic, 2), Shop(topic, 2, _number=1_000_000), Desk(name_of("billing")))
    shop, desk = way.shop, way.desk
    with desk.open(east, [topic]):
        shop.sell(east, 100)
        eventually(lambda: len(desk.processed) == 100, "the group is at work")
    run(config, site.spark)
    way.extra.sell(east, 8)
    site.done(config, "record", "east", "--once")
    way.fail_over()
    with desk.open(west, [topic]):
        shop.sell(west, 40)
        eventually(lambda: len(desk.processed) == 140, "the group is at work there")
    site.done(config, "fence", "east", "--how", "shut", "--accept=producers_stopped", *_WHY)
    [cut] = site.done(config, "cut", "--from", "east", "--to", "west").out.split()
    site.done(config, "unfence", "east", *_WHY)
    site.done(config, "hand-over", "apply", "--from", "east", "--to", "west", "--for", "mirror", *_WHY)
    options = (*SHUT, "--topic", topic, *way.groups, "--accept", "no_commit", "-o", "json")
    with running(config, site.spark, _BACK, from_cut=cut, recorded=frozenset(Subject)):
        eventually(lambda: len(values(east, topic)) == 148, "what was written there came back")
        refused = site.command(config, "plan", "switchover", *_WAY, *options)
        [blocked] = [
            one for one in json.loads(refused.out)[0]["blockers"] if one["code"] == "extras_at_target"
        ]
        still_at_work = site.command(config, "mirror-back", *_WAY, "--extras", "keep", *_WHY)
        assert (still_at_work.code, operations(config, "extras_decided")) == (5, [])
    assert f"{topic} (8 offsets)" in blocked["words"]
    commands = [shlex.split(one)[1:] for one in re.findall(r"mirror-ledger [^,;]+", blocked["advice"])]
    assert [one[0] for one in commands] == ["stop", "fence", "mirror-back"]
    way.site.done(config, *commands[1], "--how", "shut", "--accept=producers_stopped")
    [cut] = way.site.done(config, *commands[2]).out.split()
    way.go_home(cut)
    assert desk.processed[:140] == shop.written[:140]
    assert sorted(desk.processed) == sorted(shop.written)
    assert broken_invariants(config) == {}
