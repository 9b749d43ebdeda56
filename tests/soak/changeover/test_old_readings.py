"""A plan of a failover says how old what it knows is, and takes nothing for met that nobody has read for long."""

import pytest

from ledger.changeover.planning import Planned
from ledger.changeover.plans import BlockerCode, ChangeoverKind, StepName
from ledger.changeover.seeing import make_plan
from ledger.config.mirror import ObjectivesConfig
from ledger.context import Context
from ledger.facts.ways import Direction
from ledger.offsets.sheets import commits_age
from tests.support.changing_pairs import FAILOVER, TOPICS, ChangingPair

PLACES = [(name, partition) for name, count in TOPICS.items() for partition in range(count)]


def planned(pair: ChangingPair) -> Planned:
    """For a source that was lost, with an objective of no repeats at all."""
    pair.east.available = False
    pair.schedule.wait(3.0)
    config = pair.config.model_copy(update={"objectives": ObjectivesConfig(max_repeats_per_group=0)})
    hooks = {StepName.START_APPLICATIONS: "start-applications"}
    with pair.outside.seen_by(pair.outside.process()):
        return make_plan(Context(config), ChangeoverKind.FAILOVER, Direction("east", "west"), FAILOVER, hooks)


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "recorders have died"])
def test_groups_that_read_on_unseen_repeat_at_least_what_is_known(is_recorded: bool) -> None:
    """Their commits at the source are the oracle: what lies between these and the recorded ones is read again."""
    pair = ChangingPair()
    pair.schedule.wait(2.0)
    pair.recorders.is_over = not is_recorded
    for number in range(60):
        pair.produce(*PLACES[number % len(PLACES)])
    pair.until(lambda: pair.is_copied, "copied")
    for place in pair.east.committed:
        pair.east.committed[place] += 5
    pair.schedule.wait(200.0)
    recorded = {
        (row["group_id"], row["topic"], row["partition"]): row["committed_offset"]
        for row in pair.ledger.rows("checkpoints")
        if row["cluster"] == "east"
    }
    unseen = sum(offset - recorded[place] for place, offset in pair.east.committed.items())
    assert (unseen == 0) is is_recorded
    made = planned(pair)
    pair.end()
    objectives = [one for one in made.blockers if one.code is BlockerCode.OBJECTIVE]
    assert (objectives == []) is is_recorded, "what nobody has read for long is not met"
    assert made.forecast["repeated_bound"] == "at_least"
    assert ("3 min" in commits_age(made.forecast)) is not is_recorded
