"""A compacted topic of which each side has alone what the other one lacks: nothing is put behind a newer record.

Over clusters in memory, with the program's own steps, and applications that write in the middle of it. The oracle is
the order in which applications wrote each key where they are.
"""

import json
from dataclasses import replace

import pytest

from ledger.changeover.plans import ChangeoverKind, FenceChoice
from ledger.facts.operations import OperationKind
from tests.simulation.kafka.administered import MIRROR, topic_rule
from tests.support.changing_pairs import SWITCHOVER, ChangingPair
from tests.support.compacted_pairs import USERS, decided, lasts, with_deficits_of_keys
from tests.support.failbacks import BACK, HOME
from tests.support.histories import examples

pytestmark = pytest.mark.long

KEPT = ("users=keep",)


def test_a_plan_forecasts_that_its_fence_watches_a_compacted_topic() -> None:
    """Tombstones pass the limit of a batch's size, so for so long the topic has to be still."""
    pair = ChangingPair()
    shut = replace(SWITCHOVER, fence=FenceChoice.SHUT, producers_stopped=True, most_quiet_seconds=40.0)
    pair.until(lambda: pair.is_copied, "all is copied")

    def fence_s() -> float:
        pair.plan(ChangeoverKind.SWITCHOVER, shut)
        plan = [row for row in pair.ledger.rows("operations") if row["kind"] == OperationKind.PLAN][-1]
        return float(json.loads(plan["content"])["forecast"]["downtime"]["steps"]["fence"])

    without = fence_s()
    pair.east.alter_topic("users", {"cleanup.policy": "compact"})
    assert 5 <= fence_s() - without <= 40, "as long as writers pause, between the two bounds of the plan"
    pair.end()


def test_replicating_extras_and_returning_deficits_are_refused_with_the_reason() -> None:
    pair = with_deficits_of_keys()
    both = replace(HOME, extras=("replicate",), deficits=("return",))
    found = pair.failback_blockers(both)
    assert found.keys() == {"extras", "deficits"}
    assert "compacted, or may be, so its extras are not replicated" in found["extras"]
    assert "compacted, or may be, so its deficits do not return" in found["deficits"]
    assert pair.failback_blockers(replace(both, extras=("users=keep", "replicate"))).keys() == {"deficits"}
    assert pair.failback_blockers(replace(both, extras=("keep",), deficits=KEPT)) == {}
    assert pair.failback_blockers(replace(both, extras=("recreate",))) == {}, "all comes back in its order"
    pair.east.alter_topic("users", {"cleanup.policy": "delete"})
    assert pair.failback_blockers(both).keys() == {"extras", "deficits"}, "at one side is enough"
    pair.end()


@pytest.mark.parametrize(
    "policy",
    examples(check=["salvage"], soak=["keep", "salvage", "recreate", "salvage-recreate"]),
)
def test_each_decision_leads_home_and_no_key_falls_behind_what_was_written_last(policy: str) -> None:
    """East lacks `c` and `t`, and has alone another `c`."""
    pair = with_deficits_of_keys()
    pair.west.change_acls([topic_rule(MIRROR, "create", "*")])
    choices = replace(HOME, extras=(policy,), deficits=() if "recreate" in policy else KEPT)
    plan = pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK)
    acts = [b"meanwhile-a", b"newest-a"]

    def write(name: str) -> bool:
        """The same key again and again, from when extras and deficits are decided."""
        if acts and any(one in name for one in ("deficits_decided", "extras_decided", "topic_recreated")):
            assert pair.put(pair.west, USERS, b"a", acts.pop(0))
        return False

    moved = pair.apply_by_many(plan, behind=write)
    pair.schedule.spawn("supervisor", pair.forward.supervise)
    pair.until(lambda: pair.is_copied, "east is mirrored again")
    assert not acts
    written = {b"a": "newest-a", b"b": "newer-b", b"c": "first-c", b"d": "newer-d", b"t": "first-t"}
    assert lasts(pair.west) == written
    if "recreate" in policy:
        assert lasts(pair.east) == written, "in the order of west"
    else:
        left = {key: value for key, value in written.items() if key not in (b"c", b"t")}
        assert lasts(pair.east) == {**left, b"c": "extra-c"}, "of two keys the last value is at west alone"
        assert decided(pair, "deficits_decided", "return") == {"keep": 3}
        told = [row["content"] for row in pair.rows("operations", moved) if row["kind"] == "step_done"]
        words = "3 records stay at west; east lacks the last value of 2 keys (offsets of copies: 6, 8)"
        assert words in str(told), told
    if policy.startswith("salvage"):
        salvaged = [one.content for one in pair.west.log("users.salvaged", 0).readable()]
        assert len(salvaged) == 1
        assert b"extra-c" in salvaged[0]
    pair.end()
