"""Groups of a pair of clusters with prefixed copies drain these and change sides."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, TopicPartition

from ledger.config.mirror import MirrorConfig
from ledger.sandbox.workload import create_topics
from tests.support.following import admin_of, copying, name_of
from tests.support.plans import OFTEN
from tests.support.recorded import operations, query
from tests.support.runs import FLOW
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually

_COMMITS_EVERY_S = 0.2


_GROUPS_MAY_TAKE_S = 6


_OTHER_PLACES = 20


def test_groups_of_a_prefixed_pair_drain_the_copies_and_lose_nothing(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured({FLOW: copying(topic, OFTEN)})
    create_topics(east, [topic], partitions=2)
    create_topics(west, [topic], partitions=2)
    shop, desk = Shop(topic, 2), Desk(name_of("billing"))
    started = site.folder / "applications are started"

    def at_west(ended: threading.Event) -> None:
        """From when the apply says so."""
        while not ended.wait(0.1):
            if started.exists():
                with desk.open(west, [f"east.{topic}", topic]):
                    shop.sell(west, 100)
                    eventually(lambda: set(desk.processed) >= set(shop.written), "all is processed")
                return

    with site.running(config):
        with shop.selling(east), desk.open(east, [topic]):
            eventually(lambda: desk.is_at_work(200), "the group is at work")
            eventually(lambda: query(config, "flow_positions", flow=FLOW) != [], "the flow is at work")
        plan_id = site.planned(
            config,
            *("switchover", "--fence", "none", "--accept=unproven=producers ended"),
            *("--group", desk.group, "--wait-groups", str(_GROUPS_MAY_TAKE_S), "--watch", "1"),
            *("--wait-progress", "30", "--hook", f"start_applications=touch '{started}'"),
        )
        with member_of(west, desk.group, f"east.{topic}"):
            refused = site.command(config, "apply", plan_id, "--reason", "a drill", "--yes")
        assert (refused.code, refused.out, operations(config, "apply_claimed")) == (5, "", [])
        assert "is stale" in refused.err
        assert "1 group with members at west" in refused.err
        eventually(lambda: not has_member(config, desk.group), "the group is empty again")
        with assigned(east, desk.group, topic):
            refused = site.command(config, "apply", plan_id, "--reason", "a drill", "--yes")
        assert (refused.code, refused.out) == (5, ""), refused.err
        assert f"1 group at work at east: commits of '{desk.group}' moved" in refused.err
        assert operations(config, "promoted") == operations(config, "offsets_set") == []
        with beside(at_west):
            applied = site.command(config, "apply", plan_id, "--reason", "a drill", "--yes")
        assert applied.code == 0, applied.err
    figures = operations(config, "apply_ended")[-1]["figures"]
    assert figures["downtime_seconds"] < 60
    assert figures["downtime_seconds"] <= figures["seconds_to_first_commit"].pop(desk.group) < 120
    assert figures["seconds_to_first_commit"] == {}
    assert figures["groups_without_commit"] == []
    assert shop.refused == []
    assert sorted(desk.processed) == sorted(shop.written)


@contextmanager
def member_of(servers: str, group: str, topic: str) -> Iterator[None]:
    """A consumer of the group that has its partitions, reads nothing and commits nothing."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    try:
        eventually(lambda: consumer.poll(0.1) is not None or consumer.assignment() != [], "it is a member")
        yield
    finally:
        consumer.close()


@contextmanager
def assigned(servers: str, group: str, topic: str) -> Iterator[None]:
    """Somebody who took a partition without being a member, and commits in it again and again.

    Each commit is another than those of the last seconds, so that two looks at any moments see that it moves.
    """
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    [stood] = consumer.committed([TopicPartition(topic, 0)], 30)
    assert stood.offset > _OTHER_PLACES, "the group has committed in it"

    def work(ended: threading.Event) -> None:
        back = itertools.cycle(range(1, _OTHER_PLACES))
        while not ended.wait(_COMMITS_EVERY_S):
            consumer.commit(offsets=[TopicPartition(topic, 0, stood.offset - next(back))], asynchronous=False)

    try:
        with beside(work):
            yield
        consumer.commit(offsets=[stood], asynchronous=False)
    finally:
        consumer.close()


def has_member(config: MirrorConfig, group: str) -> bool:
    with admin_of(config, "west") as west:
        return any(one.group_id == group and one.group_state != "Empty" for one in west.groups())
