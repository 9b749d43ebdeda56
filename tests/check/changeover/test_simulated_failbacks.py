"""A lost cluster is back with records that were never copied: applications go home, now or later.

Over clusters in memory, with the program's own steps and everybody at work beside them; more of them in `make soak`.
"""

from dataclasses import replace

import pytest

from ledger.changeover.decisions import POLICIES
from ledger.changeover.deficits import list_one_sided
from ledger.changeover.extras import Extras
from ledger.changeover.pairs import Pair
from ledger.changeover.plans import ChangeoverKind, StepName, steps_of
from ledger.context import Context
from ledger.facts.deficits import DeficitsPolicy
from tests.simulation.kafka.administered import MIRROR, topic_rule
from tests.support.changing_pairs import FAILOVER, TOPICS, ChangingPair, in_ledger
from tests.support.failbacks import (
    BACK,
    HOME,
    is_of_recreating,
    lose_and_return,
    placed,
    require_home,
    require_mirrored,
    with_extras,
)
from tests.support.histories import examples
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
    of_users = [one for one in extras if one[0] == "users"]
    require_home(pair, of_users, given_up=[one for one in extras if one[0] != "users"])
    assert pair.values(pair.east)["orders", 0] == pair.values(pair.west)["orders", 0], "in the order of west"
    now = pair.east.topics()
    assert [name for name in sorted(former) if now[name].topic_id != former[name].topic_id] == ["orders"]
    assert pair.east.topic_by_name["orders"].configuration == settings


EVERY = [(extras, deficits) for extras in POLICIES for deficits in DeficitsPolicy]


@pytest.mark.parametrize(
    ("policy", "of_deficits"),
    examples(check=[("replicate", "return"), ("salvage", "return"), ("keep", "keep")], soak=EVERY),
)
def test_each_decision_about_what_each_side_has_alone_leads_home(policy: str, of_deficits: str) -> None:
    pair = ChangingPair()
    pair.west.change_acls([topic_rule(MIRROR, "create", "*")])
    extras = lose_and_return(pair, {("orders", 0): 1, ("orders", 1): 2, ("users", 0): 1})
    at_east = placed(pair, pair.east)
    lost = [one for one in pair.taken if one not in at_east and one[2].startswith("east")]
    assert len(lost) == 4
    choices = replace(HOME, extras=(policy,), deficits=(of_deficits,))
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK))
    is_new = "recreate" in policy
    require_mirrored(
        pair,
        extras if policy in ("keep", "salvage") else [],
        given_up=extras if is_new else [],
        left=lost if of_deficits == "keep" and not is_new else [],
    )
    assert "not_copied_any_more" not in pair.blockers(("east", "west")), "what was salvaged waits for nobody"
    pair.end()


def test_extras_are_listed_with_who_has_read_them_by_now_and_without_what_the_mirror_has_just_written() -> (
    None
):
    pair, extras = with_extras()
    pair.recorders.is_over = True
    pair.stop_groups()
    pair.consume(pair.east, {"audit": 1_000})
    pair.stop_groups()
    assert {*extras} <= {*pair.processed["audit"]}
    listed = one_sided(pair)
    assert all(one.readers == {"audit": 1} for one in listed), listed
    assert sum(one.offsets for one in listed) == len(extras), "a dead driver had copied the others"
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, stays=True), way=BACK))
    at_east = pair.east.log("orders", 0)
    before = len(at_east.readable())
    assert pair.produce("orders", 0, at=pair.west)
    deadline = pair.schedule.monotonic() + 30.0
    while len(at_east.readable()) == before:
        assert pair.schedule.monotonic() < deadline, "it is copied"
        pair.schedule.wait(0.005)
    assert one_sided(pair) == []
    pair.end()


def one_sided(pair: ChangingPair) -> list[Extras]:
    with pair.outside.seen_by(pair.outside.process()):
        return list_one_sided(Context(pair.config), Pair("west", "east", None)).extras


def test_behind_a_failover_both_clusters_are_to_be_recorded_that_the_lost_one_is_read_as_soon_as_it_answers() -> (
    None
):
    pair = ChangingPair()
    flows = [flow.model_copy(update={"full_sweep_seconds": 4.0}) for flow in pair.config.flows.values()]
    pair.config = pair.config.model_copy(update={"flows": {flow.name: flow for flow in flows}})
    pair.destination = pair.west
    pair.lose_east(with_driver=True)
    pair.recorders.is_over = True
    pair.schedule.wait(15.0)
    plan = pair.plan(ChangeoverKind.FAILOVER, FAILOVER)
    pair.apply(plan)
    applied = pair.applied(plan)
    assert applied is not None
    assert "run mirror-ledger record west east," in applied.done[StepName.RECORD].words
    pair.end()
