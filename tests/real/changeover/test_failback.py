"""The source is lost and comes back with records that were never copied: one plan takes applications home."""

import json
from threading import Event

from kafka.admin import ACLOperation

from ledger.recorders.observation import Subject
from ledger.sandbox import Sandbox
from tests.support.following import values
from tests.support.guarded import MIRROR, SHOP, GuardedPair, on_topic
from tests.support.guarded_journeys import journey
from tests.support.outages import lost
from tests.support.plans import DEAD, SHUT, HookedStep, TravellingApplications, planned, receipts, verified
from tests.support.recorded import broken_invariants, operations, rows
from tests.support.runs import FLOW, run, running
from tests.support.shops import Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually
from tests.support.way_home import BACK, WAY, WayHome


def test_one_plan_takes_applications_home(site: RealSite) -> None:
    way = WayHome.begun(site)
    config, shop, desk, topic = way.config, way.shop, way.desk, way.shop.topic
    east, west = site.servers
    started = HookedStep(site.folder, "catch_up")

    def mirrored_back(ended: Event) -> None:
        if started.wait(ended):
            with running(config, site.spark, BACK, recorded=frozenset(Subject)):
                started.done()
                ended.wait()

    with site.running(config):
        site.done(config, "pause", FLOW, "--reason", "extras are made", "--wait", "60")
        way.extra.sell(east, 32)
        eventually(
            lambda: (
                {row["partition"] for row in rows(config, "checkpoints") if row["group_id"] == desk.group}
                == {0, 1}
            ),
            "where the group is at east is recorded",
        )
        way.fail_over()
        home = TravellingApplications(site.folder, shop, desk, west, east)
        with beside(home.work), beside(mirrored_back):
            asked = (*SHUT, "--topic", topic, *way.groups, *home.hooks, *started.option)
            refused = site.command(config, "plan", "failback", *WAY, *asked, "-o", "json")
            assert refused.code == 4, refused.err
            blockers = json.loads(refused.out)[0]["blockers"]
            assert [one["code"] for one in blockers] == ["extras", "extras"], blockers
            assert "partition 0: 16 offsets (50 to 65): 16 records" in blockers[0]["words"]
            before = len(shop.written)
            eventually(lambda: len(shop.written) > before + 100, "applications are at work")
            plan_id = site.planned(config, "failback", *asked, "--extras", "keep", way=("west", "east"))
            applied = site.done(config, "apply", plan_id, "--reason", "east is back", "--yes")
    [operation] = applied.out.split()
    done = receipts(config)
    assert done["mirror_back"]["read_back"]["is_new"] is True
    assert "32 offsets stay at east" in done["mirror_back"]["words"]
    assert verified(site.capsys, config, operation)[1]["steps"] == "ok"
    with running(config, site.spark, from_cut=operation):
        site.done(config, "resume", FLOW, "--reason", "they are made", "--wait", "60")
        way.require_all_once()
    assert len(operations(config, "way_back_opened")) == 1
    assert sorted(values(east, topic)) == sorted([*shop.written, *way.extra.written])


def test_it_does_so_where_brokers_ask_who_somebody_is(
    site: RealSite, guarded_pair: GuardedPair, guarded_pair_sandbox: Sandbox
) -> None:
    """Rules close east to applications, for reading too, and let the mirror in where extras go."""
    of, east = journey(guarded_pair, site.folder, site.capsys), guarded_pair["east"]
    extra, started = Shop(of.topic, 2, _number=1_000_000), HookedStep(site.folder, "catch_up")
    of.sell("east", 20)
    of.process("east", lambda: len(of.desk.processed) == 20)
    run(of.config, site.spark, recorded=frozenset(Subject))
    with lost(guarded_pair_sandbox):
        of.applied(planned(site.capsys, of.config, "failover", *DEAD, "--group", of.desk.group))
    extra.sell(east.servers, 6, **east.login(SHOP))
    of.sell("west", 20)

    def mirrored_back(ended: Event) -> None:
        if started.wait(ended):
            east.allow(MIRROR, *on_topic(of.topic, ACLOperation.WRITE))
            with running(of.config, site.spark, BACK, recorded=frozenset(Subject)):
                started.done()
                ended.wait()

    with beside(mirrored_back):
        asked = ("--extras", "replicate", "--group", of.desk.group, "--wait-groups", "1", *started.option)
        operation = of.applied(planned(site.capsys, of.config, "failback", *asked, way=("west", "east")))
    of.sell("east", 10)
    of.shop.written += extra.written
    of.process("east", lambda: set(of.desk.processed) >= set(of.shop.written))
    assert run(of.config, site.spark, from_cut=operation).stopped == []
    assert of.holds_all("east")
    assert of.holds_all("west")
    assert broken_invariants(of.config) == {}
