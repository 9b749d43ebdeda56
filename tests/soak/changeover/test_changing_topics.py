"""Changes of direction while topics change: partitions are added, a topic is created again."""

import threading

from ledger.config.mirror import MirrorConfig
from ledger.sandbox.workload import create_topics
from tests.support.following import name_of, produce, values
from tests.support.plans import SHUT, HookedStep, both_ways, receipts
from tests.support.recorded import broken_invariants, operations, query, rows
from tests.support.runs import FLOW, run
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.topic_changes import add_partitions, delete, hook, recreate
from tests.support.waiting import eventually


def test_partitions_added_before_an_apply_and_between_its_steps_are_moved_as_well(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=2)
    shop, desk = Shop(topic, 2), Desk(name_of("billing"))
    hooks = (
        *("--hook", f"stop_groups={hook('grow', east, topic, 4)}"),
        *("--hook", f"cut={hook('grow', east, topic, 5)}"),
    )
    with site.running(config):
        with desk.open(east, [topic]):
            shop.sell(east, 100)
            eventually(lambda: desk.is_at_work(100), "the group is at work")
        plan_id = site.planned(config, "switchover", *SHUT, "--group", desk.group, *hooks)
        add_partitions(east, topic, 3)
        produce(east, topic, "new", partition=2)
        applied = site.done(config, "apply", plan_id, "--reason", "a drill", "--yes")
    operation_id = applied.out.strip()
    assert receipts(config)["move_groups"]["read_back"]["partitions"] == {"set": 4}, "the fifth came too late"
    with desk.open(west, [topic]):
        shop.partitions = 4
        shop.sell(west, 40)
        eventually(lambda: set(desk.processed) >= {*shop.written, b"new"}, "all is processed")
    everything = sorted([*shop.written, b"new"])
    assert sorted(desk.processed) == everything
    assert "not_ok" not in site.command(config, "verify", operation_id).out
    run(config, site.spark, "west-to-east", from_cut=operation_id)
    assert sorted(values(east, topic)) == everything
    assert broken_invariants(config) == {}


def test_a_topic_that_is_created_again_is_never_moved_as_if_it_were_the_one_of_the_plan(
    site: RealSite,
) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic, 'on_source_recreated = "continue"'))
    create_topics(east, [topic], partitions=2)
    shop, desk = Shop(topic, 2), Desk(name_of("billing"))
    options = (*SHUT, "--group", desk.group, "--hook", f"cut={hook('recreate', east, topic, 2)}")
    with site.running(config):
        with desk.open(east, [topic]):
            shop.sell(east, 50)
            eventually(lambda: desk.is_at_work(50), "the group is at work")
        before = site.planned(config, "switchover", *options)
        recreate(east, topic, 2)
        stale = site.command(config, "apply", before, "--reason", "a drill", "--yes")
        assert (stale.code, stale.out) == (5, "")
        assert "is stale" in stale.err
        assert (operations(config, "apply_claimed"), operations(config, "fence")) == ([], [])

        shop.sell(east, 10)
        with desk.open(east, [topic]):
            eventually(lambda: desk.is_at_work(60), "the group is at work on the new one")
        eventually(lambda: len(values(west, topic)) == 60, "the flow has decided about the new one")
        plan_id = site.planned(config, "switchover", *options)
        assert plan_id != before
        for _ in ("begun", "continued"):
            failed = site.command(config, "apply", plan_id, "--reason", "a drill", "--yes")
            assert failed.code == 5
            assert f"topic {topic} of east was created again" in failed.err
            assert "Step cut did nothing" in failed.err
        assert list(receipts(config))[-1] == "shut_out"
        operation_id = operation_of(rows(config, "operations"), "promoted")
        assert f"mirror-ledger undo {operation_id}" in failed.err

        site.done(config, "undo", operation_id, "--reason", "a drill", "--yes")
        shop.sell(east, 10)
        eventually(lambda: len(values(west, topic)) == 70, "the flow goes on, and the fence is lifted")
    assert sorted(values(west, topic)) == sorted(shop.written)
    assert operations(config, "offsets_set") == []
    assert broken_invariants(config) == {}


def test_topics_that_are_gone_block_nobody_and_one_that_comes_in_the_middle_is_not_promoted_unasked(
    site: RealSite,
) -> None:
    east, west = site.servers
    name = name_of("shop")
    stays, goes, comes = (f"{name}-{which}" for which in ("stays", "goes", "comes"))
    config = site.configured(both_ways(f"{name}-.*"))
    create_topics(east, [stays, goes], partitions=1)
    shop, desk, stop = Shop(stays, 1), Desk(name_of("billing")), HookedStep(site.folder, "stop_groups")

    def bring(ended: threading.Event) -> None:
        if not stop.wait(ended):
            return
        create_topics(east, [comes], partitions=1)
        produce(east, comes, "new")
        eventually(lambda: comes in copied(config), "it is copied")
        stop.done()

    with site.running(config):
        produce(east, goes, "gone")
        with desk.open(east, [stays]):
            shop.sell(east, 50)
            eventually(lambda: desk.is_at_work(50), "the group is at work")
        eventually(lambda: goes in copied(config), "it is copied")
        for servers in (east, west):
            delete(servers, goes)
        options = (*SHUT, "--group", desk.group)
        plan_id = site.planned(config, "switchover", *options, *stop.option)
        with beside(bring):
            failed = site.command(config, "apply", plan_id, "--reason", "a drill", "--yes")
        assert failed.code == 5
        assert f"{comes} began to be copied since the plan was made" in failed.err
        assert operations(config, "promoted") == operations(config, "offsets_set") == []
        operation_id = str(rows(config, "operations")[-1]["operation_id"])
        site.done(config, "undo", operation_id, "--reason", "a drill", "--yes")
        plan_id = site.planned(config, "switchover", *options)
        site.done(config, "apply", plan_id, "--reason", "a drill", "--yes")
    [last] = [one for one in operations(config, "plan") if one["plan_id"] == plan_id][-1:]
    assert {one["topic"] for one in last["plan"]["topics"]} == {stays, comes}
    with desk.open(west, [stays]):
        shop.sell(west, 20)
        eventually(lambda: set(desk.processed) >= set(shop.written), "all is processed")
    assert sorted(desk.processed) == sorted(shop.written)
    assert broken_invariants(config) == {}


def copied(config: MirrorConfig) -> set[str]:
    """Topics of east that the forward flow has copied something of."""
    return {row["source_topic"] for row in query(config, "flow_positions", flow=FLOW)}


def operation_of(found: list[dict[str, object]], kind: str) -> str:
    """The id of the only one."""
    [operation_id] = [one["operation_id"] for one in found if one["kind"] == kind]
    return str(operation_id)
