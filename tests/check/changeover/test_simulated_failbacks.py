"""A lost cluster is back with records that were never copied: applications go home, now or later.

Over clusters in memory, with the program's own steps and everybody at work beside them; more of them in `make soak`.
"""

from dataclasses import replace

import pytest

from ledger.changeover.plans import ChangeoverKind, steps_of
from tests.support.changing_pairs import TOPICS, in_ledger
from tests.support.failbacks import (
    BACK,
    HOME,
    is_of_recreating,
    require_home,
    with_deficits,
    with_extras,
)
from tests.support.operator_processes import OnceAtEach

pytestmark = pytest.mark.long


def test_a_topic_that_is_created_again_gets_all_of_the_other_side() -> None:
    """What east alone had of it is lost with it, as it was said; of another one it stays."""
    pair, extras = with_extras()
    former, settings = pair.east.topics(), dict(pair.east.topic_by_name["orders"].configuration)
    choices = replace(HOME, extras=("users=keep", "recreate"))
    ends = OnceAtEach(lambda write: "extras_decided" in write or is_of_recreating(write))
    operation_id = pair.apply_by_many(pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK), behind=ends)
    assert len(ends.ended_at) >= 4, ends.ended_at
    told = in_ledger(pair, operation_id)
    assert sorted(told["receipts"]) == sorted(steps_of(ChangeoverKind.FAILBACK, is_promoted=True))
    assert told["directions"] == {("east", "west"): [], ("west", "east"): sorted(TOPICS)}
    require_home(pair, [one for one in extras if one[0] == "users"])
    assert pair.values(pair.east)["orders", 0] == pair.values(pair.west)["orders", 0], "in the order of west"
    now = pair.east.topics()
    assert [name for name in sorted(former) if now[name].topic_id != former[name].topic_id] == ["orders"]
    assert pair.east.topic_by_name["orders"].configuration == settings


def test_what_each_side_has_alone_comes_to_the_other_one() -> None:
    pair, _ = with_deficits({("orders", 0): 1, ("orders", 1): 2})
    choices = replace(HOME, extras=("replicate",), deficits=("orders=return",))
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK))
    require_home(pair, [])
