"""Plans are carried out by the program's own steps over clusters in memory, with everybody at work beside them.

Whatever write a process ends behind, and whatever an administrator may not do in the middle, the next process comes to
the end that one alone would have come to; and an undo comes back to where it all began.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from ledger.changeover.plans import ApplyState, ChangeoverKind, StepName, steps_of
from ledger.errors import MirrorLedgerError
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
from tests.support.operator_processes import OnceAtEach, ProcessEnded, begins, is_sampled
from tests.support.simulated_applies import (
    PLACES,
    denied,
    refused,
    require_nothing_lost_or_twice,
    typed_in,
)

pytestmark = pytest.mark.long

_SETTINGS_AT_WEST = {
    "orders": {"message.timestamp.type": "LogAppendTime", "retention.ms": "900"},
    "users": {"compression.type": "producer", "retention.ms": "800"},
}


def is_telling(write: str) -> bool:
    """One in six of the ends; `make soak` tries all. Here are none between steps (test_applying.py) or of groups."""
    is_of_groups = any(word in write for word in ("offsets_set", "sheet", "commits of billing"))
    return not (write.startswith("ledger: apply ") or is_of_groups) and is_sampled(write, 6)


def is_tried(write: str) -> bool:
    """One in eight of the ends; `make soak` tries all."""
    return is_sampled(write, 8)


def is_of_failover(write: str) -> bool:
    """An eighth of what a switchover does not have, or comes to in another way."""
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
    assert len(ends.ended_at) >= 3, ends.ended_at

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
    assert now["west commits"] == {(group, *place): 5 for group in GROUPS for place in PLACES}
    assert pair.refused > 0, "producers were never refused at east"

    told = in_ledger(pair, operation_id)
    assert sorted(told["receipts"]) == sorted(steps_of(ChangeoverKind.SWITCHOVER, is_promoted=True))
    assert told["rows"]["promoted"] == told["rows"]["apply_ended"] == 1
    assert told["ended"]["figures"]["records_lost"] == 0
    assert [json.loads(row)["reverse_start"] for row in told["cut"] if '"target"' in row] == [4, 4, 4]
    assert (told["receipts"]["hand_over"]["settings"], told["receipts"]["hand_over"]["permissions"]) == (7, 6)
    assert told["receipts"]["stop_groups"] == {"groups": sorted(GROUPS)}
    assert told["sheets"] == {
        group: {(*place, offset) for place in PLACES} for group, offset in (("billing", 4), ("audit", 2))
    }

    require_nothing_lost_or_twice(pair, records=15)
    at_west = pair.values(pair.west)
    pair.write_at_east_past_all_rules()
    caplog.clear()
    back = copied_back(pair, operation_id)
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    of_the_flow = [words for words in warned if not words.startswith("late_write: users partition 0 of east")]
    assert of_the_flow == [], "the way back begins as it has to"
    assert [sync[4:] for sync in back["syncs"] if sync[3] == "cut"] == [(4, 4, 4)] * 3
    assert pair.values(pair.west) == at_west, "the forward driver has written behind the promotion"
    pair.end()


def test_a_failover_settles_what_a_driver_copied_last_that_died_a_moment_ago() -> None:
    pair = ChangingPair()
    pair.lose_east(with_driver=True)
    plan = pair.plan(ChangeoverKind.FAILOVER, FAILOVER)
    ends = OnceAtEach(is_of_failover)
    operation_id = pair.apply_by_many(plan, behind=ends)
    assert len(ends.ended_at) >= 1, ends.ended_at

    told = in_ledger(pair, operation_id)
    assert told["settled"] == [("orders", 0, 4, 6)]
    assert told["ended"]["figures"]["records_lost"] == 0
    assert {one[2] for one in told["fences"]} == {"unproven"}
    ends_of_map = [json.loads(row)["map_target_end"] for row in told["cut"] if '"target"' in row]
    assert sorted(ends_of_map) == [4, 4, 6]
    require_nothing_lost_or_twice(pair, records=17)

    at_west = pair.values(pair.west)
    pair.return_of_east(extras=3)
    back = copied_back(pair, operation_id)
    assert pair.values(pair.west) == at_west, "the forward driver has written behind the promotion"
    assert {sync[2:4] for sync in back["syncs"]} == {("started", "earliest")}, "written behind extras at east"
    pair.end()


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
    require_nothing_lost_or_twice(pair, records=16)
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
        (group, *place): offset for place in PLACES for group, offset in (("billing", 4), ("audit", 2))
    }

    applied = pair.applied(plan)
    assert applied is not None
    ends = OnceAtEach(is_tried)
    pair.undo_by_many(applied.operation_id, behind=ends)
    assert len(ends.ended_at) >= 3, ends.ended_at
    assert at_clusters(pair) == before
    told = in_ledger(pair, applied.operation_id)
    assert (told["rows"]["demoted"], told["rows"]["undone"]) == (1, 1)
    assert (told["fences"], told["shut out"], told["directions"]["east", "west"]) == ([], frozenset(), [])
    assert told["undone"]["steps"]["hand_over"].startswith("west: 7 settings of 2 topics and 8 permissions")
    for place in PLACES:
        assert pair.produce(*place)
    pair.until(lambda: pair.is_copied, "the forward driver continues")
    assert pair.values(pair.west) == pair.values(pair.east)
    pair.end()


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
            at = {place: pair.west.log(*place).high_watermark for place in PLACES}
            ends.extend(at.values())
            assert pair.west.commit_as_member("billing", generation, at)
            pair.west.leave("billing")
        return False

    with pytest.raises(MirrorLedgerError, match="was shut out of operations"):
        pair.apply(plan, pair.outside.process(before=sleeps))
    assert [pair.west.committed["billing", *place] for place in PLACES] == ends
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
