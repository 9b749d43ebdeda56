"""Prefixed names both ways: a group moves with its commits on copies of the other side, and comes back."""

import pytest

from ledger.config.mirror import MirrorConfig
from ledger.sandbox.workload import create_topics
from tests.support.following import copying, name_of
from tests.support.plans import OFTEN, UNFENCED
from tests.support.recorded import operations, query, rows
from tests.support.runs import FLOW
from tests.support.shops import Desk, Shop
from tests.support.site import RealSite
from tests.support.waiting import eventually

_BACK = "west-to-east"
_SYNCED = ("sync_groups = true", "sync_groups_seconds = 1")


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_group_goes_and_comes_back_with_what_it_read_of_both_sides(site: RealSite, is_synced: bool) -> None:
    east, west = site.servers
    topic = name_of("orders")
    copies = {alias: f"{alias}.{topic}" for alias in ("east", "west")}
    lines = copying(topic, OFTEN, *(_SYNCED if is_synced else ()))
    back = f'source = "west"\ntarget = "east"\n{lines}'
    config = site.configured({FLOW: lines, _BACK: back})
    for servers in (east, west):
        create_topics(servers, [topic], partitions=2)
    here, there, desk = Shop(topic, 2), Shop(topic, 2, _number=1_000_000), Desk(name_of("billing"))

    def processed_all() -> bool:
        return set(desk.processed) >= {*here.written, *there.written}

    def switched(kind: str, source: str, target: str) -> None:
        options = (*UNFENCED, "--group", desk.group, "--watch", "1")
        plan_id = site.planned(config, kind, *options, way=(source, target))
        site.done(config, "apply", plan_id, "--reason", "a drill", "--yes")

    with site.running(config), site.running(config, _BACK):
        here.sell(east, 50)
        there.sell(west, 30)
        eventually(lambda: query(config, "flow_positions", flow=FLOW) != [], "copies are at west")
        eventually(lambda: query(config, "flow_positions", flow=_BACK) != [], "copies are at east")
        with desk.open(east, [topic, copies["west"]]):
            here.sell(east, 50)
            there.sell(west, 30)
            eventually(processed_all, "it reads both sides at east")
        if is_synced:
            eventually(lambda: synced_at(config) == {"west"}, "it is followed, and nowhere else")
        here.sell(east, 10)
        there.sell(west, 10)
        switched("switchover", "east", "west")
        assert moved_of(config) == {topic, copies["west"]}
        with desk.open(west, [copies["east"], topic]):
            there.sell(west, 60)
            eventually(processed_all, "it reads both sides at west")
        there.sell(west, 10)
        switched("failback", "west", "east")
        assert moved_of(config) == {topic, copies["east"]}
        with desk.open(east, [topic, copies["west"]]):
            here.sell(east, 60)
            eventually(processed_all, "it reads both sides at east again")
    assert sorted(desk.processed) == sorted([*here.written, *there.written])
    assert len(desk.processed) == 310


def synced_at(config: MirrorConfig) -> set[str]:
    """Clusters at which drivers have committed for groups that read elsewhere."""
    return {row["target_cluster"] for row in rows(config, "group_syncs") if row["event"] == "synced"}


def moved_of(config: MirrorConfig) -> set[str]:
    """Topics of the former source from which the last group was moved."""
    return {one["source_topic"] for one in operations(config, "offsets_set")[-1]["commits"]}
