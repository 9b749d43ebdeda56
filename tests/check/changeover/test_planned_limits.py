"""What plans hold against objectives and state: by which figures, and of which kind of plan."""

from dataclasses import replace

import pytest

from ledger.changeover.plans import BlockerCode, ChangeoverKind
from ledger.changeover.scope import SeenCluster
from ledger.config.values import Objective
from tests.support.seen_pairs import DEAD, EAST, FAILOVER, SEEN, SWITCHOVER, WEST, flow, made, position


def test_state_of_a_streams_application_is_none_after_a_failover() -> None:
    names = ("orders", "billing-totals-changelog", "audit-totals-changelog")
    topics = {name: f"W-{name}" for name in names}
    copied = flow(
        positions=[position(name) for name in names], incarnations={name: f"E-{name}" for name in names}
    )
    east = replace(EAST, topic_ids={name: f"E-{name}" for name in names})
    seen = replace(SEEN, source=east, target=replace(WEST, topic_ids=topics), flows=[copied])
    assert made(seen).blockers == (), "all of it is drained"
    dead = replace(seen, source=DEAD)
    [blocker] = made(dead, FAILOVER).blockers
    assert blocker.code is BlockerCode.CHANGELOG
    assert blocker.words.startswith("billing-totals-changelog is state of 'billing'")
    assert made(dead, FAILOVER, accepted=("changelog",)).blockers == ()


@pytest.mark.parametrize(("kind", "source"), [(SWITCHOVER, EAST), (FAILOVER, DEAD)])
def test_every_objective_is_compared_by_one_kind_of_plan(kind: ChangeoverKind, source: SeenCluster) -> None:
    allowed = dict.fromkeys(Objective, -1.0)
    seen = replace(SEEN, source=source, objectives=allowed, downtimes={SWITCHOVER: 1.0, FAILOVER: 1.0})
    found = {word for one in made(seen, kind).blockers for word in one.words.split() if word in {*Objective}}
    other = "max_loss" if kind is SWITCHOVER else "max_lag"
    assert found == {str(one) for one in Objective if not one.startswith(other)}
    assert made(replace(seen, objectives=dict.fromkeys(Objective, 100.0)), kind).blockers == ()
