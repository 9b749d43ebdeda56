"""The source is lost under load and comes back with records that were never copied: applications go home by plans."""

from ledger.recorders.observation import Subject
from ledger.sandbox.workload import create_topics
from tests.support.following import name_of, values
from tests.support.outages import lost
from tests.support.plans import DEAD, SHUT, TravellingApplications, both_ways
from tests.support.recorded import broken_invariants, operations, query, rows
from tests.support.runs import FLOW, running
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually

_BACK = "west-to-east"
_WHY = ("--reason", "east is back")


def test_applications_come_home_and_read_nothing_again_though_extras_lie_in_front(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=2)
    shop, extra = Shop(topic, 2), Shop(topic, 2, _number=1_000_000)
    desk, reader = Desk(name_of("billing")), Desk(name_of("audit"))
    groups = [word for one in (desk, reader) for word in ("--group", one.group)]
    way = ("--from", "west", "--to", "east")
    with site.running(config):
        with desk.open(east, [topic]), reader.open(east, [topic]):
            shop.sell(east, 200)
            eventually(lambda: len(desk.processed) == len(reader.processed) == 200, "both groups are at work")
        eventually(lambda: set(values(west, topic)) >= set(shop.written), "all of it is copied")
        site.done(config, "pause", FLOW, "--reason", "extras are made", "--wait", "60")
        extra.sell(east, 32)
        with reader.open(east, [topic]):
            eventually(lambda: len(reader.processed) == 232, "one group has read them")
        with lost(site.sandbox):
            plan_id = site.planned(config, "failover", *DEAD, "--accept=mirror_not_shut_out", *groups)
            site.done(config, "apply", plan_id, "--reason", "east is dead", "--yes")
        with reader.open(west, [topic]), shop.selling(west), desk.open(west, [topic]):
            site.done(config, "fence", "east", "--how", "shut", "--accept=producers_stopped", *_WHY)
            refused = site.command(config, "mirror-back", *way, *_WHY)
            assert (refused.code, refused.out, operations(config, "extras_decided")) == (4, "", [])
            assert f"extras at east: {topic} partition 0: 16 offsets" in refused.err
            assert f"read by '{reader.group}'" in refused.err
            done = site.done(config, "mirror-back", *way, "--extras", "keep", *_WHY)
            [cut] = done.out.split()
            assert f"mirror-ledger run {_BACK} --from-cut {cut}" in " ".join(done.err.split())
            assert "32 offsets stay at east" in " ".join(done.err.split())
            assert [one["policy"] for one in operations(config, "extras_decided")] == ["keep_local"] * 2
    with running(config, site.spark, _BACK, from_cut=cut, recorded=frozenset(Subject)):
        home = TravellingApplications(site.folder, shop, desk, west, east)
        with beside(home.work):
            eventually(lambda: len(values(east, topic)) > 232 + 100, "it comes back while they work")
            options = (*SHUT, "--topic", topic, *groups, *home.hooks)
            plan_id = site.planned(config, "switchover", *options, way=("west", "east"))
            [cut] = site.done(config, "apply", plan_id, "--reason", "home again", "--yes").out.split()
        with reader.open(east, [topic]):
            eventually(lambda: set(reader.processed) >= set(shop.written), "the other group has all")
    with running(config, site.spark, from_cut=cut):
        site.done(config, "resume", FLOW, "--reason", "they are made", "--wait", "60")
        eventually(
            lambda: sorted(values(west, topic)) == sorted(shop.written),
            "what is written at home is copied, and what stays there is not",
            within_s=60,
        )
    assert sorted(values(east, topic)) == sorted([*shop.written, *extra.written])
    assert shop.refused == []
    assert sorted(desk.processed) == sorted(shop.written)
    assert sorted(reader.processed) == sorted([*shop.written, *extra.written])
    assert operations(config, "apply_ended")[-1]["figures"]["records_lost"] == 0
    gaps = [
        gap for row in rows(config, "offset_syncs") for gap in row["gaps"] if gap["cause"] == "kept_local"
    ]
    assert sum(gap["source_end"] - gap["source_start"] for gap in gaps) == 32
    kept = query(config, "one_sided_records", from_cluster="west", to_cluster="east")
    assert {row["status"] for row in kept} == {"kept_local"}
    assert broken_invariants(config) == {}
