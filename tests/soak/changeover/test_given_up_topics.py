"""Topics that were mirrored once, when applications change sides: nothing of them is lost or moved in silence."""

import json
from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition

from ledger.changeover.plans import ChangeoverKind
from ledger.config.mirror import MirrorConfig
from ledger.sandbox.workload import create_topics
from tests.support.changing_histories import ScopedLife
from tests.support.changing_pairs import SWITCHOVER
from tests.support.following import config_of, name_of, produce, values
from tests.support.outages import lost
from tests.support.plans import DEAD, both_ways
from tests.support.recorded import broken_invariants, operations, query
from tests.support.runs import run
from tests.support.shops import Desk
from tests.support.site import RealSite
from tests.support.waiting import eventually


@pytest.mark.parametrize("seed", range(1, 21))
def test_nothing_is_set_or_promoted_that_was_not_fenced_drained_and_counted(seed: int) -> None:
    life = ScopedLife.of_seed(seed)
    life.require_nothing_unguarded(life.applied(ChangeoverKind.SWITCHOVER, SWITCHOVER))
    life.pair.end()


def test_what_was_written_since_it_was_selected_is_counted_though_the_source_is_lost(site: RealSite) -> None:
    east, west = site.servers
    orders, refunds, desk = name_of("orders"), name_of("refunds"), Desk(name_of("billing"))
    config = site.configured(both_ways(f"{orders}|{refunds}"))
    create_topics(east, [orders, refunds], partitions=1)
    with site.running(config), desk.open(east, [orders, refunds]):
        for topic in (orders, refunds):
            produce(east, topic, *(f"{topic}-{number}" for number in range(10)))
        eventually(lambda: desk.is_at_work(20), "the group is at work")
        eventually(lambda: len(values(west, refunds)) == 10, "all of it is copied")

    config = config_of(site.folder, site.pair, both_ways(orders))
    run(config, site.spark, allow_scope_reduction=True)
    with site.running(config):
        produce(east, refunds, *(f"later-{number}" for number in range(500)))
        eventually(lambda: _known_end(config, refunds) == 510, "its ends are recorded still")
        asked = ("plan", "failover", "--from", "east", "--to", "west", "--group", desk.group, "-o", "json")
        with lost(site.sandbox):
            options = (*DEAD, "--accept=mirror_not_shut_out")
            refused = site.command(config, *asked, *options)
            [blocker] = [
                one for one in json.loads(refused.out)[0]["blockers"] if one["code"] == "not_copied_any_more"
            ]
            assert refused.code == 4
            assert f"copied {refunds} of east" in blocker["words"]
            assert "500 records known" in blocker["words"]

            left = ("--group", desk.group, "--leave-out", refunds)
            plan_id = site.planned(config, "failover", *options, *left)
            site.done(config, "apply", plan_id, "--reason", "east is dead", "--yes")
            placed = _committed(west, desk.group, orders, refunds)
    assert placed == {orders: 10}, "where it is to read on, and nothing else"
    assert [one["topics"] for one in operations(config, "promoted")] == [[orders]]
    assert broken_invariants(config) == {}


def _known_end(config: MirrorConfig, topic: str) -> int | None:
    rows = query(config, "failover_loss", from_cluster="east", to_cluster="west")
    return next((row["known_end"] for row in rows if row["source_topic"] == topic), None)


def _committed(servers: str, group: str, *topics: str) -> dict[str, int]:
    with closing(Consumer({"bootstrap.servers": servers, "group.id": group})) as consumer:
        found = consumer.committed([TopicPartition(topic, 0) for topic in topics], 30)
    return {one.topic: one.offset for one in found if one.offset >= 0}
