"""The source is lost and comes back with records that were never copied: applications go home, and nothing is read
again."""

from ledger.sandbox.workload import create_topics
from tests.support.drivers import Driver
from tests.support.following import name_of, values
from tests.support.plans import both_ways
from tests.support.recorded import query
from tests.support.runs import FLOW, run, running
from tests.support.shops import Desk, Shop
from tests.support.site import RealSite
from tests.support.waiting import eventually
from tests.support.way_home import WAY, WHY, WayHome

_NOTHING_RECORDED = "round_seconds = 1\n", "round_seconds = 120\n"
"""A round whose end the driver does not live to see."""


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
        eventually(lambda: query(config, "flow_positions", flow=FLOW) != [], "the flow is at work")
        eventually(lambda: set(values(west, topic)) >= set(shop.written), "all of it is copied")
        site.done(config, "pause", FLOW, "--reason", "extras are made", "--wait", "60")
        extra.sell(east, 32)
        with reader.open(east, [topic]):
            eventually(lambda: len(reader.processed) == 232, "one group has read them")
        way.fail_over()
        at_work = site.command(config, "mirror-back", *WAY, "--extras", "keep", *WHY)
        assert (at_work.code, f"mirror-ledger stop {FLOW}" in at_work.err) == (5, True), at_work.err
    with reader.open(west, [topic]), shop.selling(west), desk.open(west, [topic]):
        cut = way.mirror_back(
            f"extras at east: {topic} partition 0: 16 offsets (100 to 115); read by '{reader.group}'",
            "32 offsets stay at east",
            is_listed_first=True,
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
            is_listed_first=False,
        )
    cut = way.go_home(cut)
    assert run(config, site.spark, from_cut=cut).is_unfinished is False
    way.require_all_once()
