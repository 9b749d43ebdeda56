"""Whether a plan is carried out is decided by what has changed since, not by how long ago it was made."""

import pytest

from ledger.changeover.plans import ApplyState, ChangeoverKind
from ledger.config.mirror import ObjectivesConfig
from tests.support.changing_pairs import FAILOVER, ChangingPair

pytestmark = pytest.mark.long


def lost_under_load(**allowed: float) -> ChangingPair:
    """East took five records a second until it was lost, with all that recorded it; `[objectives]` allow so much."""
    pair = ChangingPair()
    objectives = ObjectivesConfig.model_validate(allowed)
    pair.config = pair.config.model_copy(update={"objectives": objectives})
    for _ in range(20):
        assert pair.produce("orders", 0)
        pair.schedule.wait(0.2)
    pair.recorders.is_over = True
    pair.lose_east(with_driver=True)
    return pair


def test_a_plan_is_carried_out_though_a_dead_source_might_have_taken_more_since() -> None:
    pair = lost_under_load(max_loss_records=60, max_loss_seconds=30)
    plan = pair.plan(ChangeoverKind.FAILOVER, FAILOVER)
    pair.schedule.wait(120.0)
    pair.apply(plan)
    done = pair.applied(plan)
    assert done is not None
    assert done.state is ApplyState.DONE
    written = [one for found in pair.values(pair.west).values() for one in found]
    assert any(one.startswith("west-") for one in written), "applications write at west"
    pair.end()
