"""Plans are carried out by the program's own steps over clusters in memory, with everybody at work beside them.

Whatever write a process ends behind, and whatever an administrator may not do in the middle, the next process comes to
the end that one alone would have come to; and an undo comes back to where it all began.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from ledger.changeover import pairs
from ledger.changeover.checks import CheckStatus
from ledger.changeover.exporting import export_plan
from ledger.changeover.fencing import fence_topics
from ledger.changeover.measures import AskedFence
from ledger.changeover.plans import ApplyState, ChangeoverKind, StepName, steps_of
from ledger.changeover.shut_out import shut_out
from ledger.changeover.verifying import verify_changeover
from ledger.context import Context
from ledger.errors import MirrorLedgerError, PreconditionError, UsageError
from ledger.facts.acls import denial
from ledger.facts.fences import FenceHow, QuietBounds
from ledger.facts.groups import NewCommit
from ledger.facts.operations import Why
from ledger.facts.permissions import Permission
from ledger.facts.ways import Direction
from ledger.offsets.between_clusters import Chosen
from ledger.offsets.setting import Choice
from ledger.offsets.sheets import Asked, set_positions
from tests.simulation.kafka.administered import CLUSTER, MIRROR, AdministeredCluster, rule, topic_rule
from tests.simulation.kafka.partition_log import Replication
from tests.support.changing_pairs import (
    ADMIN,
    BILLING,
    FAILOVER,
    GROUPS,
    SHOP,
    SWITCHOVER,
    TOPICS,
    ChangingPair,
    at_clusters,
    copied_back,
    in_ledger,
)
from tests.support.documents import parsed_line, quoted_lines
from tests.support.operator_processes import OnceAtEach, OperatorProcess, ProcessEnded, begins

_PLACES = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]
_SETTINGS_AT_WEST = {
    "orders": {"message.timestamp.type": "LogAppendTime", "retention.ms": "900"},
    "users": {"compression.type": "producer", "retention.ms": "800"},
}


def denied(principal: str, topic: str) -> Permission:
    return denial(topic, principal)


def is_telling(write: str) -> bool:
    """A third of the ends; `make soak` tries all. Here are none between steps (test_applying.py) or of groups."""
    is_of_groups = any(word in write for word in ("offsets_set", "sheet", "commits of billing"))
    return not (write.startswith("ledger: apply ") or is_of_groups) and crc32(write.encode()) % 3 == 0


def is_tried(write: str) -> bool:
    """A quarter of the ends; `make soak` tries all."""
    return crc32(write.encode()) % 4 == 0


def is_of_failover(write: str) -> bool:
    """A quarter of what a switchover does not have, or comes to in another way."""
    return is_tried(write) and any(
        word in write for word in ("flow:", "settled", "promoted", "shut_out", "cut_offsets", "fence")
    )


def test_a_switchover_that_ends_behind_every_write_comes_to_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pair = ChangingPair()
    before = at_clusters(pair)
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    pair.produce_at_east_later()
    ends = OnceAtEach(is_telling)
    operation_id = pair.apply_by_many(plan, behind=ends)
    assert len(ends.ended_at) > 8, ends.ended_at

    now = at_clusters(pair)
    assert now["east rules"] == before["east rules"] | {denied(SHOP, topic) for topic in TOPICS}
    assert now["west rules"] == before["west rules"] | {
        *(denied(MIRROR, topic) for topic in TOPICS),
        *(topic_rule(SHOP, "write", topic) for topic in TOPICS),
        *(topic_rule(BILLING, "read", topic) for topic in TOPICS),
    }
    groups = {rule(BILLING, "read", "group", group) for group in GROUPS}
    assert now["west permissions"] == before["west permissions"] | groups
    assert {name: now["west settings"][name] for name in TOPICS} == _SETTINGS_AT_WEST
    assert now["east settings"]["orders"]["message.timestamp.type"] == "CreateTime"
    assert now["west commits"] == {(group, *place): 5 for group in GROUPS for place in _PLACES}
    assert pair.refused > 0, "producers were never refused at east"

    told = in_ledger(pair, operation_id)
    assert sorted(told["receipts"]) == sorted(steps_of(ChangeoverKind.SWITCHOVER, is_promoted=True))
    assert told["rows"]["promoted"] == told["rows"]["apply_ended"] == 1
    assert told["ended"]["figures"]["records_lost"] == 0
    assert [json.loads(row)["reverse_start"] for row in told["cut"] if '"target"' in row] == [4, 4, 4]
    assert (told["receipts"]["hand_over"]["settings"], told["receipts"]["hand_over"]["permissions"]) == (7, 6)
    assert told["receipts"]["stop_groups"] == {"groups": sorted(GROUPS)}
    assert told["sheets"] == {
        group: {(*place, offset) for place in _PLACES} for group, offset in (("billing", 4), ("audit", 2))
    }

    _nothing_lost_or_processed_twice(pair, records=15)
    at_west = pair.values(pair.west)
    pair.write_at_east_past_all_rules()
    caplog.clear()
    back = copied_back(pair, operation_id)
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert warned == [], "the way back begins as it has to"
    assert [sync[4:] for sync in back["syncs"] if sync[3] == "cut"] == [(4, 4, 4)] * 3
    assert pair.values(pair.west) == at_west, "the forward driver has written behind the promotion"
    pair.end()


def test_a_failover_settles_what_a_driver_copied_last_that_died_a_moment_ago() -> None:
    pair = ChangingPair()
    pair.lose_east(with_driver=True)
    plan = pair.plan(ChangeoverKind.FAILOVER, FAILOVER)
    ends = OnceAtEach(is_of_failover)
    operation_id = pair.apply_by_many(plan, behind=ends)
    assert len(ends.ended_at) > 3, ends.ended_at

    told = in_ledger(pair, operation_id)
    assert told["settled"] == [("orders", 0, 4, 6)]
    assert told["ended"]["figures"]["records_lost"] == 0
    assert {one[2] for one in told["fences"]} == {"unproven"}
    ends_of_map = [json.loads(row)["map_target_end"] for row in told["cut"] if '"target"' in row]
    assert sorted(ends_of_map) == [4, 4, 6]
    _nothing_lost_or_processed_twice(pair, records=17)

    at_west = pair.values(pair.west)
    pair.return_of_east(extras=3)
    back = copied_back(pair, operation_id)
    assert pair.values(pair.west) == at_west, "the forward driver has written behind the promotion"
    assert {sync[2:4] for sync in back["syncs"]} == {("started", "earliest")}, "written behind extras at east"
    pair.end()


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
    _nothing_lost_or_processed_twice(pair, records=17)
    pair.end()


def _nothing_lost_or_processed_twice(pair: ChangingPair, *, records: int) -> None:
    at_west = {(*place, value) for place, values in pair.values(pair.west).items() for value in values}
    assert len(at_west) == records
    for group in GROUPS:
        assert sorted(pair.processed[group]) == sorted(at_west), group


def test_a_switchover_waits_for_what_only_the_leader_of_the_source_has() -> None:
    """Its producer was acknowledged by the leader alone (acks=1), and followers come behind late."""
    pair = ChangingPair()
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    log = pair.east.log("orders", 0)
    log.hold()
    assert pair.produce("orders", 0)
    assert (log.end, log.high_watermark) == (5, 4)
    pair.schedule.after(6.0, lambda: setattr(log, "replication", Replication.FULL))
    operation_id = pair.apply(plan)
    at_west = pair.values(pair.west)
    assert {place: at_west[place][: len(values)] for place, values in pair.values(pair.east).items()} == (
        pair.values(pair.east)
    )
    assert at_west["orders", 0][4] == "east-12"
    [ends] = [one["partitions"] for one in in_ledger(pair, operation_id)["receipts"]["fence"]["fences"][:1]]
    assert [(one["end"], one["evidence"]) for one in ends] == [(5, "rules"), (4, "rules")]
    _nothing_lost_or_processed_twice(pair, records=16)
    pair.end()


def test_what_an_administrator_may_not_do_fails_by_name_and_all_of_it_can_be_undone() -> None:
    pair = ChangingPair()
    before = at_clusters(pair)
    plan = pair.plan(ChangeoverKind.SWITCHOVER, replace(SWITCHOVER, abort_marker=False))
    for step, cluster, is_about, words in (
        (StepName.FENCE, pair.east, "alter cluster", "alter cluster"),
        (StepName.SHUT_OUT, pair.west, "alter cluster", "nothing but the ledger"),
        (StepName.HAND_OVER, pair.west, "alter_configs topic", "alter_configs topic orders"),
        (StepName.MOVE_GROUPS, pair.west, "read group", "group_denied"),
    ):
        grant = _revoked(cluster, is_about)
        there = at_clusters(pair)
        with pytest.raises(MirrorLedgerError, match=words):
            pair.apply(plan, pair.outside.process(before=begins(StepName.AUDIT)))
        applied = pair.applied(plan)
        assert applied is not None
        assert (applied.state, list(applied.failed)) == (ApplyState.OPEN, [step])
        if step is StepName.MOVE_GROUPS:
            assert at_clusters(pair)["west commits"] == there["west commits"]
        grant()
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(before=begins(StepName.AUDIT)))
    assert at_clusters(pair)["west commits"] == {
        (group, *place): offset for place in _PLACES for group, offset in (("billing", 4), ("audit", 2))
    }

    applied = pair.applied(plan)
    assert applied is not None
    ends = OnceAtEach(is_tried)
    pair.undo_by_many(applied.operation_id, behind=ends)
    assert len(ends.ended_at) > 4, ends.ended_at
    assert at_clusters(pair) == before
    told = in_ledger(pair, applied.operation_id)
    assert (told["rows"]["demoted"], told["rows"]["undone"]) == (1, 1)
    assert (told["fences"], told["shut out"], told["directions"]["east", "west"]) == ([], frozenset(), [])
    assert told["undone"]["steps"]["hand_over"].startswith("west: 7 settings of 2 topics and 8 permissions")
    for place in _PLACES:
        assert pair.produce(*place)
    pair.until(lambda: pair.is_copied, "the forward driver continues")
    assert pair.values(pair.west) == pair.values(pair.east)
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


def refused(pair: ChangingPair, plan: str, words: str) -> str:
    """What an apply that is continued says where it does nothing more, and is to say it of."""
    before = at_clusters(pair)
    with pytest.raises(PreconditionError, match=words) as told:
        pair.apply(plan)
    assert at_clusters(pair) == before
    return str(told.value)


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
    for place in _PLACES:
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


def test_a_continued_apply_whose_source_was_written_to_moves_nobody_and_can_be_undone() -> None:
    pair = ChangingPair()
    before = at_clusters(pair)
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(behind=begins(StepName.MOVE_GROUPS)))
    pair.unfence_east()
    for _ in range(5):
        assert pair.produce("orders", 0), "the shop writes at east again"
    told = refused(pair, plan, "orders partition 0: an application has written at offset 4")
    applied = pair.applied(plan)
    assert applied is not None
    assert typed_in(told)["undo"]["operation"] == applied.operation_id
    pair.undo(applied.operation_id)
    assert at_clusters(pair) == before
    pair.until(lambda: pair.is_copied, "the forward driver continues")
    assert pair.values(pair.west) == pair.values(pair.east)
    pair.end()


def typed_in(words: str) -> dict[str, Mapping[str, Any]]:
    """By name the commands that a message has, with their options as they are parsed: nothing mandatory is lacking."""
    return {name: options for line in quoted_lines(words) for name, options in [parsed_line(line)]}


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
    places = {group: [pair.west.committed[group, *place] for place in _PLACES] for group in GROUPS}
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


def test_a_group_that_another_process_has_moved_is_not_set_by_who_was_suspended() -> None:
    pair = ChangingPair()
    pair.lose_east(with_driver=False)
    plan = pair.plan(ChangeoverKind.FAILOVER, FAILOVER)
    ends: list[int] = []
    slept: list[bool] = []

    def sleeps(write: str) -> bool:
        """Behind the first group; another host follows it meanwhile, and a job of the second one reads on at west."""
        if write == "west: commits of billing" and not slept:
            slept.append(True)
            pair.apply(plan)
            generation = pair.west.join("billing")
            at = {place: pair.west.log(*place).high_watermark for place in _PLACES}
            ends.extend(at.values())
            assert pair.west.commit_as_member("billing", generation, at)
            pair.west.leave("billing")
        return False

    with pytest.raises(MirrorLedgerError, match="was shut out of operations"):
        pair.apply(plan, pair.outside.process(before=sleeps))
    assert [pair.west.committed["billing", *place] for place in _PLACES] == ends
    pair.end()


def _revoked(cluster: AdministeredCluster, what: str) -> Callable[[], None]:
    """Take it from who has it; returns what gives it back."""
    match what.split():
        case ["alter", "cluster"]:
            one = rule(ADMIN, "alter", "cluster", CLUSTER)
        case ["read", "group"]:
            one = rule(MIRROR, "read", "group", "*")
        case _:
            of_topics = topic_rule(ADMIN, "alter_configs", "*")
            cluster.change_acls([of_topics], remove=True)
            return lambda: cluster.change_acls([of_topics])
    cluster.allowed.others.remove(one)
    return lambda: cluster.allowed.others.add(one)


def test_an_export_whose_files_cannot_be_written_is_recorded_nowhere(tmp_path: Path) -> None:
    pair = ChangingPair()
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    (tmp_path / "a file").touch()

    def recorded() -> list[str]:
        return [
            row["kind"] for row in pair.ledger.rows("operations") if row["kind"] in ("plan_exported", "sheet")
        ]

    def export(folder: Path, process: OperatorProcess) -> None:
        with pair.outside.seen_by(process):
            export_plan(Context(pair.config, Why("a drill")), plan, folder)

    with pytest.raises(
        UsageError, match=r"a file/.* cannot be written: Not a directory; nothing was recorded"
    ):
        export(tmp_path / "a file" / "plan", pair.outside.process())
    assert recorded() == []
    with pytest.raises(ProcessEnded):
        export(tmp_path / "plan", pair.outside.process(before=lambda write: "plan_exported" in write))
    assert (recorded(), list((tmp_path / "plan").iterdir())) == ([], []), (
        "what nobody recorded is not to be used"
    )
    export(tmp_path / "plan", pair.outside.process())
    assert recorded() == ["plan_exported", *["sheet"] * len(GROUPS)]
    assert (tmp_path / "plan" / "steps.sh").is_file()
    pair.end()
