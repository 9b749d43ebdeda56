"""Applies that are continued, meddled with, or left to people, over clusters in memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ledger.changeover import pairs
from ledger.changeover.checks import CheckStatus
from ledger.changeover.fencing import fence_topics
from ledger.changeover.measures import AskedFence
from ledger.changeover.plans import ApplyState, ChangeoverKind, StepName
from ledger.changeover.shut_out import shut_out
from ledger.changeover.verifying import verify_changeover
from ledger.context import Context
from ledger.errors import PreconditionError
from ledger.facts.fences import FenceHow, QuietBounds
from ledger.facts.groups import NewCommit
from ledger.facts.operations import Why
from ledger.facts.ways import Direction
from ledger.offsets.between_clusters import Chosen
from ledger.offsets.setting import Choice
from ledger.offsets.sheets import Asked, set_positions
from tests.simulation.kafka.administered import MIRROR, AdministeredCluster
from tests.support.changing_pairs import (
    FAILOVER,
    GROUPS,
    SWITCHOVER,
    TOPICS,
    ChangingPair,
    at_clusters,
    copied_back,
    in_ledger,
)
from tests.support.operator_processes import ProcessEnded, begins
from tests.support.simulated_applies import (
    PLACES,
    denied,
    refused,
    require_nothing_lost_or_twice,
    typed_in,
)


def test_a_failover_moves_groups_that_had_read_what_is_lost() -> None:
    """Nothing has to be accepted for that: they continue behind the last record that is there."""
    pair = ChangingPair()
    pair.forward.end_at_once()
    for _ in range(3):
        assert pair.produce("users", 0)
    pair.consume(pair.east, {"billing": 1_000})
    pair.recorders.record_all()
    pair.lose_east(with_driver=False)
    plan = pair.plan(ChangeoverKind.FAILOVER, FAILOVER)
    operation_id = pair.apply(plan)
    assert in_ledger(pair, operation_id)["ended"]["figures"]["records_lost"] == 3
    lost = {value for _, _, value in pair.processed["billing"]} - {
        value for values in pair.values(pair.west).values() for value in values
    }
    assert len(lost) == 3
    written_at_west = {one for one in pair.processed["billing"] if one[2].startswith("west-")}
    assert len(written_at_west) == 3, "it has read on behind them, where applications began to write"
    assert len(pair.processed["billing"]) == len(set(pair.processed["billing"])), "and nothing again"
    pair.end()


def test_a_failover_settles_beside_a_source_that_answers_and_is_given_up() -> None:
    """No driver of the flow would find what it had copied last: the target is promoted."""
    pair = ChangingPair()
    pair.lose_driver()
    plan = pair.plan(ChangeoverKind.FAILOVER, replace(FAILOVER, source_given_up=True))
    operation_id = pair.apply(plan)
    told = in_ledger(pair, operation_id)
    assert told["settled"] == [("orders", 0, 4, 6)]
    assert told["ended"]["figures"]["records_lost"] == 0
    require_nothing_lost_or_twice(pair, records=17)
    pair.end()


def test_a_switchover_that_finds_records_behind_at_its_cut_moves_nobody_and_can_be_undone() -> None:
    pair = ChangingPair()
    before = at_clusters(pair)
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    is_cut = begins(StepName.CUT)

    def straggles(write: str) -> bool:
        if is_cut(write):
            pair.append_past_all_rules(pair.east, "users", 0)
        return False

    with pytest.raises(PreconditionError, match=r"1 record not copied.*of east, users.*mirror-ledger undo"):
        pair.apply(plan, pair.outside.process(before=straggles))
    applied = pair.applied(plan)
    assert applied is not None
    assert (applied.state, list(applied.failed)) == (ApplyState.OPEN, [StepName.CUT])
    with pytest.raises(PreconditionError, match="1 offset of east came after the target was promoted"):
        pair.apply(plan)
    assert at_clusters(pair)["west commits"] == before["west commits"]

    pair.undo(applied.operation_id)
    assert at_clusters(pair) == before
    pair.until(lambda: pair.is_copied, "the forward driver continues")
    assert pair.values(pair.west) == pair.values(pair.east)
    pair.end()


@pytest.mark.parametrize("step", [StepName.SHUT_OUT, StepName.START_APPLICATIONS])
def test_an_apply_whose_target_was_demoted_meanwhile_moves_nobody_there(step: StepName) -> None:
    pair = ChangingPair()
    before = at_clusters(pair)
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(behind=begins(step)))
    pair.demote()
    commits, processed = at_clusters(pair)["west commits"], {**pair.processed}
    with pytest.raises(
        PreconditionError, match=r"west is not promoted over east any more.*mirror-ledger undo"
    ):
        pair.apply(plan)
    applied = pair.applied(plan)
    assert applied is not None
    assert (applied.state, list(applied.failed)) == (ApplyState.OPEN, [step])
    assert (at_clusters(pair)["west commits"], pair.processed) == (commits, processed)
    assert len(pair.values(pair.west)["orders", 0]) == 4, "applications have started at west"
    pair.undo(applied.operation_id)
    assert at_clusters(pair) == before
    pair.end()


def test_a_continued_apply_asks_again_what_its_steps_rest_on_and_goes_on_as_it_says() -> None:
    pair = ChangingPair()
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(behind=begins(StepName.MOVE_GROUPS)))

    pair.unfence_east()
    typed = typed_in(
        refused(pair, plan, "orders: rules were removed that denied User:shop.*Step move_groups did nothing")
    )
    with pair.outside.seen_by(pair.outside.process()):
        asked = typed["fence"]
        assert (asked["cluster"], asked["topics"], asked["how"]) == ("east", tuple(TOPICS), "closed")
        fence = AskedFence(cluster="east", topics=asked["topics"], how=FenceHow.CLOSED)
        again = Context(pair.config, Why("again"))
        fence_topics(again, replace(fence, quiet=QuietBounds(0.5, 1.0)), lambda _words: None)

    pair.west.change_acls([denied(MIRROR, "users")], remove=True)
    pair.schedule.wait(1.0)
    typed = typed_in(refused(pair, plan, "users: rules were removed that denied User:mirror"))
    with pair.outside.seen_by(pair.outside.process()):
        asked = typed["promote"]
        assert (asked["cluster"], asked["former"], asked["is_shut_out"]) == ("west", "east", True)
        way = pairs.Pair("west", "east", asked["topics"])
        shut_out(
            Context(pair.config, Why("again")),
            way,
            with_markers=False,
            limit_s=5.0,
            say=lambda _words: None,
        )

    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(before=begins(StepName.START_APPLICATIONS)))
    pair.west.set_commits("audit", [NewCommit("orders", 0, 4, None)])  # --reset-offsets --to-latest
    for _ in range(2):
        told = refused(
            pair, plan, "audit: .*orders partition 0: 4, set to 2, before applications were started"
        )
        assert typed_in(told)["set"]["overwrite_newer"]
    pair.west.set_commits("audit", [NewCommit("orders", 0, 2, None)])

    pair.east.commit_as_member("audit", pair.east.join("audit"), {("users", 0): 3})
    refused(pair, plan, "1 group with members at east: audit")
    pair.east.leave("audit")
    pair.recorders.record_all()
    operation_id = pair.apply(plan)
    told_last = in_ledger(pair, operation_id)
    assert {place for place in told_last["sheets"]["audit"] if place[0] == "users"} == {("users", 0, 3)}
    assert not_ok(pair, operation_id) == []

    copied_back(pair, operation_id)
    pair.recorders.record_all()
    assert pair.east.topic_by_name["orders"].configuration["compression.type"] == "producer"
    assert not_ok(pair, operation_id) == [], "the flow back has set what copying needs at east"
    pair.end()


def test_a_recorder_that_is_silent_is_judged_alike_by_an_apply_and_by_who_would_take_its_role() -> None:
    """It died with its host: its role is taken after three full sweeps, and until then nobody else can record."""
    pair = ChangingPair()
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    pair.recorders.is_over = True
    flows = [flow.model_copy(update={"full_sweep_seconds": 4.0}) for flow in pair.config.flows.values()]
    pair.config = pair.config.model_copy(update={"flows": {flow.name: flow for flow in flows}})
    ends = begins(StepName.STOP_PRODUCERS)
    for waited_s, is_recorded in ((10.0, True), (3.0, False)):
        pair.schedule.wait(waited_s)
        with pytest.raises(ProcessEnded):
            pair.apply(plan, pair.outside.process(before=ends))
        applied = pair.applied(plan)
        assert applied is not None
        receipt = applied.done[StepName.RECORD]
        assert receipt.read_back["is_recorded"] is is_recorded
        assert ("which appended something 1" in receipt.words) is is_recorded, receipt.words
    pair.end()


def test_applications_that_were_started_keep_what_they_have_committed_when_the_receipt_of_that_is_lacking() -> (
    None
):
    """One group stood at its place before the apply, one is put back by its application: neither is set again."""
    pair = ChangingPair()
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    for place in PLACES:
        pair.west.set_commits("audit", [NewCommit(*place, 2, None)])

    def starts(write: str) -> bool:
        return write == "hook: start-applications"

    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(behind=starts))
    pair.stop_groups()
    pair.west.set_commits("billing", [NewCommit("orders", 0, 1, None)])
    told = refused(pair, plan, "orders partition 0: 1, below 4.*groups are not set again")
    typed = typed_in(told)["set"]
    assert (typed["from_cluster"], typed["to_cluster"]) == ("east", "west")
    pair.consume(pair.west, dict.fromkeys(GROUPS, 1_000))
    commits = at_clusters(pair)["west commits"]
    applied = pair.applied(plan)
    assert applied is not None
    pair.apply(plan)
    assert at_clusters(pair)["west commits"] == commits
    assert not_ok(pair, applied.operation_id) == []
    pair.end()


def not_ok(pair: ChangingPair, operation_id: str) -> list[str]:
    """What `verify` finds that is not so, or that nobody knows."""
    with pair.outside.seen_by(pair.outside.process()):
        found = verify_changeover(Context(pair.config), operation_id)
    return [f"{one.check} {one.subject}: {one.words}" for one in found if one.status is not CheckStatus.OK]


@pytest.mark.parametrize("reads_on", [False, True])
def test_what_an_apply_leaves_to_people_takes_no_commit_back_that_it_did_not_name(reads_on: bool) -> None:
    pair = ChangingPair()
    for _ in range(6):
        assert pair.produce("users", 0)
    pair.until(lambda: pair.is_copied, "all is copied")
    pair.recorders.record_all()
    pair.lose_east(with_driver=False)
    plan = pair.plan(ChangeoverKind.FAILOVER, FAILOVER)

    def changes(write: str) -> bool:
        """Retention passes the places of groups at west, whose ends nobody records; a job of one group reads there."""
        if begins(StepName.MOVE_GROUPS)(write):
            pair.recorders.is_over = True
            pair.west.log("users", 0).delete_before(5)
            if reads_on:
                commit_as_job(pair.west, "audit", "orders")
        return False

    with pytest.raises(PreconditionError, match="not every group continues") as told:
        pair.apply(plan, pair.outside.process(before=changes))
    typed = typed_in(str(told.value))["set"]
    assert (typed["groups"], typed["accepted"]) == (("audit",), ("expired_on_target",))
    assert typed["overwrite_newer"] is reads_on, "what it takes back has been named"

    if not reads_on:
        end = commit_as_job(pair.west, "audit", "users")
        assert set_as_typed(pair, typed) == ["'audit' at users partition 0: newer"]
        assert pair.west.committed["audit", "users", 0] == end
        return
    assert set_as_typed(pair, typed) == []
    with pytest.raises(PreconditionError, match="not every group continues") as told:
        pair.apply(plan)
    assert set_as_typed(pair, typed_in(str(told.value))["set"]) == []
    pair.outside.hooks["start-applications"] = lambda: None
    assert not [words for words in not_ok(pair, pair.apply(plan)) if words.startswith("group ")]
    places = {group: [pair.west.committed[group, *place] for place in PLACES] for group in GROUPS}
    assert places == {"billing": [4, 4, 5], "audit": [2, 2, 5]}
    pair.end()


def commit_as_job(cluster: AdministeredCluster, group: str, topic: str) -> int:
    """A job of the group reads all of partition 0, commits and ends; returns what it has committed."""
    generation, end = cluster.join(group), cluster.log(topic, 0).high_watermark
    assert cluster.commit_as_member(group, generation, {(topic, 0): end})
    cluster.leave(group)
    return end


def set_as_typed(pair: ChangingPair, typed: Mapping[str, Any]) -> list[str]:
    """Set offsets with these options; returns what is left."""
    choice = Choice(typed["accepted"], typed["overwrite_newer"])
    asked = Asked(Direction(typed["from_cluster"], typed["to_cluster"]), choice, Chosen(typed["groups"]))
    with pair.outside.seen_by(pair.outside.process()):
        context = Context(pair.config, Why("by hand"))
        _, done, _ = set_positions(context, context.snapshot(), asked)
    return done.left_lines()
