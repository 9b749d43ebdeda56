"""While a plan is carried out drivers make short rounds, and recorders read often."""

import pytest

from ledger.facts.roles import APPLY_WRITER
from ledger.facts.state import FactLog
from ledger.recorders.findings import PlanWatch
from ledger.store.session import APPLY_TABLES, WriterSession
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.support.fakes import FakeClock, FakeLedger, recorder_of, watched_cluster
from tests.support.ledgers import claim_of
from tests.support.stepped_drivers import Driver, nothing


def begun(fact_log: FactLog) -> WriterSession:
    """Somebody carries out a plan."""
    return WriterSession.claimed(fact_log, APPLY_WRITER, APPLY_TABLES, claim_of("a flow"))


@pytest.mark.parametrize(("is_begun", "rounds_s"), [(False, [5.0]), (True, [1.0])])
def test_the_rounds_of_a_driver_are_short_while_somebody_waits_for_them(
    is_begun: bool, rounds_s: list[float]
) -> None:
    driver = Driver([nothing])
    if is_begun:
        begun(MemoryFactLog(driver.flow.ledger, driver.flow.clock))
    driver.run()
    assert driver.rounds_s == rounds_s


def test_a_recorder_reads_every_second_what_somebody_waits_for(ledger: FakeLedger, clock: FakeClock) -> None:
    cluster = watched_cluster()
    recorder = recorder_of(cluster, ledger)
    recorder.take_role()
    recorder.record_due()
    session = begun(ledger)
    clock.now_s += 5
    recorder.record_due()
    for committed in (4, 5):
        clock.now_s += 1
        cluster.committed["app", "orders", 0] = committed
        assert recorder.record_due().rows == {"checkpoints": 1}
    session.release()
    clock.now_s += 1
    recorder.record_due()
    clock.now_s += 1
    cluster.committed["app", "orders", 0] = 6
    assert recorder.record_due().rows == {}


def test_a_plan_that_was_left_in_the_middle_is_nobodys_work(ledger: FakeLedger, clock: FakeClock) -> None:
    """As far as this process sees: whoever it is may have any clock."""
    session = begun(ledger)
    watch = PlanWatch(lambda: ledger.last_claim(APPLY_WRITER), clock)
    paces = []
    for passed_s in (0, 10, 20, 1):
        clock.now_s += passed_s
        paces.append(watch.at_most(5.0))
    session.alive()
    clock.now_s += 5
    paces.append(watch.at_most(5.0))
    assert paces == [1.0, 1.0, 1.0, 5.0, 1.0]


def test_a_pace_that_is_quicker_stays_as_it_is(ledger: FakeLedger, clock: FakeClock) -> None:
    begun(ledger)
    assert PlanWatch(lambda: ledger.last_claim(APPLY_WRITER), clock).at_most(0.5) == 0.5
