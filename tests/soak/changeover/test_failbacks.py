"""Ways home over real clusters that meet kill -9, a second disaster, or another cluster."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event

from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.recorders.observation import Subject
from ledger.sandbox import SandboxCluster
from tests.support.following import values
from tests.support.outages import lost
from tests.support.plans import (
    APPLIED,
    DEAD,
    SHUT,
    HookedStep,
    TravellingApplications,
    applying,
    has_recorded,
    receipts,
)
from tests.support.recorded import broken_invariants, operations, rows
from tests.support.runs import running
from tests.support.shops import beside
from tests.support.site import RealSite
from tests.support.waiting import eventually
from tests.support.way_home import BACK, WAY, WHY, WayHome

_KILLED = -9


def test_a_failback_whose_process_is_killed_three_times_comes_home(site: RealSite) -> None:
    """Behind what opens the way back, while history flows, and when the other side is promoted."""
    way = WayHome.begun(site)
    config, shop, desk, topic = way.config, way.shop, way.desk, way.shop.topic
    east, west = site.servers
    way.extra.sell(east, 32)
    site.done(config, "record", "east", "--once")
    way.fail_over()
    started = HookedStep(site.folder, "catch_up")
    log = site.folder / "apply.log"

    def mirrored_back(ended: Event) -> None:
        if started.wait(ended):
            with running(config, site.spark, BACK, recorded=frozenset(Subject)):
                started.done()
                ended.wait()

    promoted_before = len(operations(config, "promoted"))
    deaths: list[tuple[str, Callable[[], bool]]] = [
        ("the way back is open", has_recorded(config, "way_back_opened")),
        ("the driver of the way back is started", started.is_asked),
        ("east is promoted", lambda: len(operations(config, "promoted")) > promoted_before),
    ]
    home = TravellingApplications(site.folder, shop, desk, west, east)
    with beside(home.work), beside(mirrored_back):
        before = len(shop.written)
        eventually(lambda: len(shop.written) > before + 50, "applications are at work")
        asked = (*SHUT, "--topic", topic, *way.groups, *home.hooks, *started.option)
        plan_id = site.planned(config, "failback", *asked, "--extras", "keep", way=("west", "east"))
        for what, has_come in deaths:
            with applying(config, plan_id, log) as process:
                eventually(lambda: has_come() or process.poll() is not None, what, within_s=240)  # noqa: B023
                process.kill()
                assert process.wait() == _KILLED, (what, log.read_text())
        [operation] = site.done(config, "apply", plan_id, *APPLIED).out.split()
    kinds = Counter(row["kind"] for row in rows(config, "operations"))
    assert (kinds["way_back_opened"], kinds["apply_ended"], kinds["extras_decided"]) == (1, 2, 2)
    assert len(operations(config, "promoted")) == promoted_before + 1
    assert receipts(config).keys() >= set(operations(config, "plan")[-1]["plan"]["steps"])
    with running(config, site.spark, from_cut=operation):
        way.require_all_once()


def test_the_promoted_cluster_is_lost_before_anything_came_back(site: RealSite) -> None:
    way = WayHome.begun(site)
    config, shop, desk, topic = way.config, way.shop, way.desk, way.shop.topic
    east, west = site.servers
    way.extra.sell(east, 8)
    site.done(config, "record", "east", "--once")
    way.fail_over()
    with desk.open(west, [topic]):
        shop.sell(west, 40)
        eventually(lambda: len(desk.processed) == 140, "the group is at work there")
    alone = shop.written[100:]
    site.done(config, "record", "west", "--once")
    with lost(site.sandbox, "west"):
        asked = (*DEAD, "--accept=mirror_not_shut_out", "--topic", topic, *way.groups)
        plan_id = site.planned(config, "failover", *asked, way=("west", "east"))
        site.done(config, "apply", plan_id, *APPLIED)
        figures = operations(config, "apply_ended")[-1]["figures"]
        assert (figures["records_lost"], figures["records_at_least"]) == (len(alone), len(alone)), figures
        with desk.open(east, [topic]):
            shop.sell(east, 20)
            eventually(lambda: set(way.extra.written) <= set(desk.processed), "it reads what east has alone")
            eventually(lambda: set(shop.written) <= set(desk.processed), "and what is written now")
    assert sorted(desk.processed) == sorted([*shop.written, *way.extra.written]), "each once"
    listed = json.loads(site.done(config, "extras", "--from", "east", "--to", "west", "-o", "json").out)
    assert sum(one["records"] for one in listed) == len(alone), "west has them alone, now that it is back"
    assert broken_invariants(config) == {}


def test_another_cluster_behind_the_alias_protects_the_one_that_took_over(
    site: RealSite, north: Mapping[str, SandboxCluster]
) -> None:
    way = WayHome.begun(site)
    config, shop, topic = way.config, way.shop, way.shop.topic
    (east, west), new = site.servers, north["north"].bootstrap_servers
    site.done(config, "record", "east", "--once")
    way.fail_over()
    shop.sell(west, 40)
    file = Path(config.file)
    file.write_text(file.read_text().replace(east, new))
    config = load_config(file)
    asked = ("--topic", topic, "--within", "0", *WHY)
    made = json.loads(site.done(config, "plan", "protect", *WAY, *asked, "-o", "json").out)[0]
    assert (made["blockers"], made["forecast"]["returned"]["offsets_to_come"]) == ([], 140)
    with beside(lambda ended: _copied_when_accepted(site, config, ended)):
        site.done(config, "apply", made["plan_id"], *APPLIED)
    [accepted] = operations(config, "cluster_accepted")
    assert accepted["cluster"] == "east"
    assert sorted(values(new, topic)) == sorted(shop.written)
    assert broken_invariants(config) == {}


def _copied_when_accepted(site: RealSite, config: MirrorConfig, ended: Event) -> None:
    """By the driver that the plan asks for, once it may know the cluster."""
    while not operations(config, "cluster_accepted"):
        if ended.wait(0.2):
            return
    with running(config, site.spark, BACK):
        ended.wait()
