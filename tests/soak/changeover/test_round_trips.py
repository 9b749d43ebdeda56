"""Applications go to west and back to east several times by plans alone, under load: every record once everywhere."""

from ledger.recorders.observation import Subject
from ledger.sandbox.workload import create_topics
from tests.support.changing_histories import TravellingPair
from tests.support.changing_pairs import FORWARD, REVERSE
from tests.support.following import name_of, values
from tests.support.operator_processes import OnceAtEach
from tests.support.plans import SHUT, TravellingApplications, both_ways
from tests.support.recorded import broken_invariants, operations, query
from tests.support.runs import FLOW, running
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually

_WAYS = [("east", "west"), ("west", "east")] * 3


def test_processes_that_end_behind_any_write_come_there_and_back_twice() -> None:
    pair = TravellingPair()
    for is_back in (False, True, False, True):
        pair.work()
        ends = OnceAtEach(lambda write: not write.startswith("ledger: apply "))
        operation = pair.switch(behind=ends)
        assert len(ends.ended_at) > 20, ends.ended_at
        flow = FORWARD if is_back else REVERSE
        assert f"mirror-ledger run {flow} --from-cut {operation}" in pair.told(operation)["reverse"]
        pair.work()
        pair.come_together()
    pair.require_once_each()
    pair.end()


def test_applications_of_real_clusters_go_there_and_back_three_times(site: RealSite) -> None:
    servers = {alias: site.pair[alias].bootstrap_servers for alias in ("east", "west")}
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(servers["east"], [topic], partitions=2)
    shop, desk = Shop(topic, 2), Desk(name_of("billing"))
    flow, cut = FLOW, None
    for number, (source, target) in enumerate(_WAYS):
        folder = site.folder / f"leg {number}"
        folder.mkdir()
        leg = TravellingApplications(folder, shop, desk, servers[source], servers[target])
        before = len(desk.processed)
        with running(config, site.spark, flow, from_cut=cut, recorded=frozenset(Subject)), beside(leg.work):
            eventually(lambda at=before: desk.is_at_work(at + 200), "the group is at work")  # type: ignore[misc]
            eventually(lambda of=flow: query(config, "flow_positions", flow=of) != [], "the flow is at work")  # type: ignore[misc]
            options = (*SHUT, "--topic", topic, "--group", desk.group, *leg.hooks)
            plan_id = site.planned(config, "switchover", *options, way=(source, target))
            applied = site.done(config, "apply", plan_id, "--reason", "a drill", "--yes")
        [cut] = applied.out.split()
        flow = "west-to-east" if flow == FLOW else FLOW
        assert f"mirror-ledger run {flow} --from-cut {cut}" in " ".join(applied.err.split())
        figures = operations(config, "apply_ended")[-1]["figures"]
        with site.capsys.disabled():
            print(f"{source} to {target}: {figures['downtime_seconds']} s without a cluster to write to")
        assert figures["downtime_seconds"] < 120
        assert figures["records_lost"] == 0
    with running(config, site.spark, flow, from_cut=cut):
        eventually(
            lambda: sorted(values(servers["west"], topic)) == sorted(shop.written),
            "all is copied",
            within_s=60,
        )
    assert sorted(values(servers["east"], topic)) == sorted(shop.written)
    assert shop.refused == []
    assert sorted(desk.processed) == sorted(shop.written)
    assert broken_invariants(config) == {}
