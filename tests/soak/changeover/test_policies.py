"""Failbacks of plain, compacted and transactional topics by every policy, with an authorizer and without."""

from collections import Counter
from dataclasses import replace
from threading import Event

import pytest

from ledger.config.mirror import MirrorConfig
from ledger.recorders.observation import Subject
from ledger.sandbox import Sandbox
from tests.support.following import name_of, values
from tests.support.guarded import GuardedPair
from tests.support.plans import SHUT, HookedStep, TravellingApplications
from tests.support.policy_stories import guarded_ground, open_ground, require_policy
from tests.support.recorded import rows
from tests.support.runs import FLOW, running
from tests.support.shops import Desk, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually
from tests.support.way_home import BACK, WayHome

POLICIES = ("keep", "salvage", "replicate", "recreate")


@pytest.mark.parametrize("policy", POLICIES)
def test_extras_become_what_was_decided_and_groups_read_nothing_else_again(
    site: RealSite, policy: str
) -> None:
    require_policy(open_ground(site), policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_so_they_do_where_brokers_ask_who_somebody_is(
    site: RealSite, guarded_pair: GuardedPair, guarded_pair_sandbox: Sandbox, policy: str
) -> None:
    require_policy(guarded_ground(site, guarded_pair, guarded_pair_sandbox), policy)


@pytest.mark.parametrize("policy", ["keep", "salvage", "replicate"])
def test_sixteen_extras_a_partition_make_nobody_read_what_a_quarter_of_a_million_records_brought(
    site: RealSite, policy: str
) -> None:
    reader = Desk(name_of("audit"))
    way = replace(WayHome.begun(site), others=[reader])
    config, shop, desk, topic = way.config, way.shop, way.desk, way.shop.topic
    east, west = site.servers
    extra, started = way.extra, HookedStep(site.folder, "catch_up")

    def mirrored_back(ended: Event) -> None:
        if started.wait(ended):
            with running(config, site.spark, BACK, recorded=frozenset(Subject)):
                started.done()
                ended.wait()

    def reads_on(ended: Event) -> None:
        with reader.open(west, [topic]):
            HookedStep(site.folder, "stop_groups").wait(ended)

    with site.running(config):
        site.done(config, "pause", FLOW, "--reason", "extras are made", "--wait", "60")
        extra.sell(east, 32)
        with reader.open(east, [topic]):
            eventually(
                lambda: set(reader.processed) >= {*shop.written, *extra.written}, "one group has read them"
            )
        eventually(
            lambda: (
                recorded_of(config, desk) == {0: 50, 1: 50} and recorded_of(config, reader) == {0: 66, 1: 66}
            ),
            "where both groups are at east is recorded",
        )
        way.fail_over()
        shop.sell(west, 240_000, **{"queue.buffering.max.messages": "500000"})
        with desk.open(west, [topic]), reader.open(west, [topic]):
            eventually(
                lambda: len(desk.processed) >= 240_100 and len(reader.processed) >= 240_132,
                "both have read all of it",
                within_s=300,
            )
        home = TravellingApplications(site.folder, shop, desk, west, east)
        with beside(home.work), beside(mirrored_back), beside(reads_on):
            asked = (*SHUT, "--topic", topic, *way.groups, *home.hooks, *started.option, "--extras", policy)
            plan_id = site.planned(config, "failback", *asked, way=("west", "east"))
            applied = site.done(config, "apply", plan_id, "--reason", "east is back", "--yes")
    [operation] = applied.out.split()
    with running(config, site.spark, from_cut=operation):
        site.done(config, "resume", FLOW, "--reason", "they are made", "--wait", "60")
        with reader.open(east, [topic]):
            eventually(lambda: set(reader.processed) >= set(shop.written), "it has all at home")
        way.require_all_once(are_replicated=policy == "replicate")
    again = Counter(extra.written) if policy == "replicate" else Counter[bytes]()
    assert reader.repeated == again, "what it had read at east, and nothing else"
    assert set(reader.processed) == {*shop.written, *extra.written}
    if policy == "salvage":
        assert sorted(values(west, f"{topic}.salvaged")) == sorted(extra.written)


def recorded_of(config: MirrorConfig, desk: Desk) -> dict[int, int]:
    """By partition how far a group is known to have come."""
    found: dict[int, int] = {}
    for row in rows(config, "checkpoints"):
        if row["group_id"] == desk.group and row["committed_offset"] is not None:
            found[row["partition"]] = max(found.get(row["partition"], 0), row["committed_offset"])
    return found
