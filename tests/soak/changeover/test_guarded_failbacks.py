"""Applications come home by one plan where brokers ask who somebody is."""

from threading import Event

from kafka.admin import ACLOperation

from ledger.recorders.observation import Subject
from ledger.sandbox import Sandbox
from tests.support.guarded import MIRROR, SHOP, GuardedPair, on_topic
from tests.support.guarded_journeys import journey
from tests.support.outages import lost
from tests.support.plans import DEAD, HookedStep, planned
from tests.support.recorded import broken_invariants
from tests.support.runs import run, running
from tests.support.shops import Shop, beside
from tests.support.site import RealSite
from tests.support.way_home import BACK


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
