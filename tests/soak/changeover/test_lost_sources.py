"""Failovers of topics that transactions write, and of topics that both sides write: what was copied is processed."""

from collections import Counter

from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics
from tests.support.following import name_of, values
from tests.support.outages import lost
from tests.support.plans import DEAD, both_ways, lost_now, shared
from tests.support.recorded import broken_invariants, operations
from tests.support.runs import FLOW
from tests.support.shops import Desk, Shop, transaction
from tests.support.site import RealSite
from tests.support.waiting import eventually

_BACK = "west-to-east"


def test_what_transactions_had_committed_and_was_copied_is_processed_once(site: RealSite) -> None:
    east, west = site.servers
    deals = name_of("deals")
    config = site.configured(both_ways(deals))
    create_topics(east, [deals], partitions=1)
    desk = Desk(name_of("billing"))
    with site.running(config):
        transaction(east, deals, f"{deals}-1", b"deal-1", b"deal-2").commit_transaction(10)
        transaction(east, deals, f"{deals}-2", b"never-1").abort_transaction(10)
        with desk.open(east, [deals]):
            eventually(lambda: desk.is_at_work(2), "the group is at work")
        transaction(east, deals, f"{deals}-3", b"deal-3", b"deal-4").commit_transaction(10)
        eventually(lambda: len(values(west, deals)) == 4, "all of it is copied")
        site.done(config, "pause", FLOW, "--reason", "a drill", "--wait", "60")
        transaction(east, deals, f"{deals}-4", b"lost-1").commit_transaction(10)
        _open = transaction(east, deals, f"{deals}-5", b"never-2")
        ends = read_topics(east, [deals])[deals, 0]
        eventually(lambda: (lost_now(config)[0]["known_end"] or 0) > ends[-1].offset, "its ends are recorded")
        with lost(site.sandbox):
            options = (*DEAD, "--accept=mirror_not_shut_out", "--topic", deals, "--group", desk.group)
            plan_id = site.planned(config, "failover", *options)
            site.done(config, "apply", plan_id, "--reason", "east is dead", "--yes")
            with desk.open(west, [deals]):
                transaction(west, deals, f"{deals}-6", b"deal-5").commit_transaction(10)
                eventually(lambda: b"deal-5" in desk.processed, "it goes on at west")
    assert desk.processed == [b"deal-1", b"deal-2", b"deal-3", b"deal-4", b"deal-5"]
    [loss] = operations(config, "apply_ended")[-1]["figures"]["losses"]
    [only_there] = [one for one in ends if one.record.value == b"lost-1"]
    assert loss["copied_to"] <= only_there.offset < loss["known_end"]
    assert loss["records"] >= 1, "at most: markers and what is aborted count"
    assert broken_invariants(config) == {}


def test_of_topics_that_both_sides_write_groups_move_with_what_was_copied(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    flows = {FLOW: shared(topic, "east", "west"), _BACK: shared(topic, "west", "east")}
    config = site.configured(flows)
    for servers in (east, west):
        create_topics(servers, [topic], partitions=2)
    here, there, desk = Shop(topic, 2), Shop(topic, 2, _number=1_000_000), Desk(name_of("billing"))
    with site.running(config), site.running(config, _BACK):
        with desk.open(east, [topic]):
            here.sell(east, 100)
            there.sell(west, 60)
            eventually(lambda: set(desk.processed) >= {*here.written, *there.written}, "it reads both sides")
        here.sell(east, 30)
        eventually(lambda: set(values(west, topic)) >= set(here.written), "all of it is copied")
        with lost(site.sandbox):
            plan_id = site.planned(config, "failover", *DEAD, "--group", desk.group)
            site.done(config, "apply", plan_id, "--reason", "east is dead", "--yes")
            with desk.open(west, [topic]):
                there.sell(west, 50)
                everything = {*here.written, *there.written}
                eventually(lambda: set(desk.processed) >= everything, "nothing that was copied is lost")
    assert len(everything) == 240
    said = operations(config, "step_done")
    [moved] = [one["read_back"] for one in said if one["step"] == "move_groups"]
    assert Counter(desk.processed).total() - 240 == moved["repeated"], "as many as were announced"
    assert operations(config, "promoted") == []
    assert broken_invariants(config) == {}
