"""Markers of transactions alone, behind a promotion: nobody's write, and nothing that anybody reads again."""

from dataclasses import replace

import pytest

from ledger.changeover.plans import ChangeoverKind
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.support.changing_pairs import FAILOVER, GROUPS, SWITCHOVER, TOPICS, ChangingPair
from tests.support.failbacks import BACK, HOME, all_of, require_home

pytestmark = pytest.mark.long


def abort_at_east(pair: ChangingPair) -> None:
    """A producer that nobody has stopped ends the transactions that it could write nothing in."""
    for topic, partitions in TOPICS.items():
        for number in range(partitions):
            log = pair.east.log(topic, number)
            log.end_transaction(7_777, 0, commit=False, now_ms=pair.schedule.now_ms())


def test_markers_at_the_cluster_that_was_left_keep_nobody_from_coming_back() -> None:
    pair = ChangingPair()
    moved = pair.apply(pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER))
    pair.reverse.from_cut = MemoryLedgerState(pair.ledger).cut(moved)
    pair.start_reverse()
    for _ in range(2):
        for topic, partitions in TOPICS.items():
            for number in range(partitions):
                assert pair.produce(topic, number, at=pair.west)
        pair.schedule.wait(0.4)
        abort_at_east(pair)
        pair.schedule.wait(0.4)
    for one in pair._consumers:
        one.poll()
    pair.schedule.wait(3.0)
    pair.recorders.record_all()
    assert pair.reverse.state.stopped_partitions("west-to-east") == {}
    pair.destination = pair.east
    assert pair.blockers(BACK) == {}
    pair.apply(pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER, way=BACK))
    written = sorted(all_of(pair.values(pair.west)))
    assert sorted(one for one in all_of(pair.values(pair.east)) if one in written) == written
    for one in pair._consumers:
        one.poll()
    for group in GROUPS:
        assert sorted(pair.processed[group]) == sorted(all_of(pair.values(pair.east))), group
    pair.end()


def test_markers_that_a_lost_cluster_alone_has_are_nothing_to_decide_about() -> None:
    pair = ChangingPair()
    abort_at_east(pair)
    pair.destination = pair.west
    pair.lose_east(with_driver=False)
    pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER))
    abort_at_east(pair)
    pair.return_of_east(extras=0)
    pair.destination = pair.east
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, extras=()), way=BACK))
    require_home(pair, [])
