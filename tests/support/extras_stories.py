"""The source comes back with records that were never copied: what becomes of them, and who reads what at home."""

from collections import Counter

from ledger.changeover.left_behind import groups_left
from ledger.context import Context
from ledger.sandbox.workload import create_topics
from tests.support.following import name_of, values
from tests.support.plans import both_ways
from tests.support.recorded import query
from tests.support.runs import FLOW, running
from tests.support.shops import Desk, Shop
from tests.support.site import RealSite
from tests.support.waiting import eventually
from tests.support.way_home import WAY, WHY, WayHome


def require_nothing_read_again(site: RealSite, policy: str) -> None:
    """Though extras lie in front of what returns: but for what a group had read at east, where they are replicated."""
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
            *_copied(policy, topic),
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


def _copied(policy: str, topic: str) -> tuple[str, ...]:
    if policy == "salvage":
        return "32 offsets stay at east", f"{FLOW}.salvaged: 32 records in {topic}.salvaged"
    return "nothing stays at east alone", f"{FLOW}: 32 records that were left came to {topic}"
