"""The ledger's host is lost while applications work on; by the ledger of an older copy they move to another cluster."""

import shutil

import pytest

from ledger.sandbox.workload import create_topics
from ledger.store.snapshots import open_ledger
from tests.support.following import name_of
from tests.support.plans import SHUT, TravellingApplications, both_ways
from tests.support.recorded import broken_invariants
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually


@pytest.mark.fault(55)
def test_applications_move_by_a_restored_ledger_and_miss_nothing(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=2)
    moving = TravellingApplications(site.folder, Shop(topic, 2), Desk(name_of("billing")), east, west)
    shop, desk = moving.shop, moving.desk
    copy = str(site.folder / "copy")
    with beside(moving.work):
        with site.running(config):
            eventually(lambda: desk.is_at_work(200), "the group is at work")
            now = open_ledger(config.ledger.path).now
            eventually(lambda: bool(now().rows("offset_syncs", [("kind", "=", "copied")])), "it is copied")
            eventually(
                lambda: len(now().rows("checkpoints", [("group_id", "=", desk.group)])) > 1,
                "its commits are recorded",
            )
            site.done(config, "ledger", "copy", copy)
            read = len(desk.processed)
            eventually(lambda: len(desk.processed) > read + 200, "it has read on since the copy")
        lost = open_ledger(config.ledger.path).now().cut
        shutil.rmtree(config.ledger.path)
        accepted = ("--accept-loss-of", lost.ledger_id, "--reason", "a fire")
        site.done(config, "ledger", "restore", copy, *accepted)
        asked = ("switchover", *SHUT, "--topic", topic, "--group", desk.group, *moving.hooks)
        blocked = site.command(config, "plan", *asked[:1], "--from", "east", "--to", "west", *asked[1:])
        assert blocked.code == 4, blocked.err
        assert "group_without_place" in blocked.err, "nobody has read its commits since the copy"
        with site.running(config):
            plan_id = site.planned(config, *asked)
            applied = site.done(config, "apply", plan_id, "--reason", "its host burned down", "--yes")
    assert "applications had no cluster to write to for" in applied.err
    assert shop.refused == []
    assert sorted(desk.processed) == sorted(shop.written), "no record is missed, none is processed twice"
    assert broken_invariants(config) == {}
