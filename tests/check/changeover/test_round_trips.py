"""The way back is planned like the way there: by the program's own steps, with applications and mirrors at work."""

import pytest

from ledger.changeover.plans import StepName
from ledger.errors import PreconditionError
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.support.changed_pairs import at_clusters
from tests.support.changing_pairs import FORWARD, REVERSE, SHOP
from tests.support.operator_processes import ProcessEnded
from tests.support.round_trips import PLACES, TravellingPair


def stops(pair: TravellingPair, flow: str) -> set[str]:
    return {str(stop.cause) for stop in MemoryLedgerState(pair.ledger).stopped_partitions(flow).values()}


def begins(step: StepName) -> str:
    return f"ledger: apply operations step_begun {step}"


def test_applications_go_there_and_back_by_plans_and_an_undone_plan_leaves_all_as_it_was() -> None:
    pair = TravellingPair()
    settings = at_clusters(pair)["east settings"]
    pair.work()
    there = pair.switch()
    pair.work()
    pair.come_together()
    with pytest.raises(PreconditionError, match=r"plan switchover --from west --to east --reason"):
        pair.undo(there)
    with pytest.raises(
        PreconditionError, match=r"(?s)records behind what flow east-to-west has copied.*--keep-ends"
    ):
        pair.demote()

    pair.recorders.record_all()
    before = at_clusters(pair)
    with pytest.raises(ProcessEnded):
        pair.apply(
            pair.planned_way(), pair.outside.process(before=begins(StepName.START_APPLICATIONS).__eq__)
        )
    [given_up] = [one.operation_id for one in pair.applies() if one.operation_id != there]
    pair.undo(given_up)
    now = at_clusters(pair)
    assert {what: now[what] for what in now if "rules" in what} == {
        w: before[w] for w in before if "rules" in w
    }
    assert now == before
    pair.start_again()
    pair.work()  # at west still, and all of it comes to east
    pair.come_together()

    back = pair.switch()
    assert "mirror-ledger run east-to-west --from-cut " + back in pair.told(back)["reverse"]
    assert at_clusters(pair)["east settings"] == settings
    assert not any(pair.west.lets_write(SHOP, *place) for place in PLACES), "west is fenced"
    pair.work()
    pair.come_together()
    assert (stops(pair, FORWARD), stops(pair, REVERSE)) == (set(), {"promoted"})
    pair.require_once_each()
    pair.end()
