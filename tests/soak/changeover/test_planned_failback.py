"""The source is lost and comes back with records that were never copied: one plan takes applications home."""

import json
from threading import Event

from ledger.recorders.observation import Subject
from tests.support.following import values
from tests.support.plans import SHUT, HookedStep, TravellingApplications, receipts, verified
from tests.support.recorded import operations, rows
from tests.support.runs import FLOW, running
from tests.support.shops import beside
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
