"""Steps that wait: for groups to leave the former source, for copies, and for groups at work again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from ledger.changeover.groups import MovedCommit
from ledger.changeover.waiting import (
    GroupPlace,
    GroupsAtRest,
    SeenCommits,
    WhichGroups,
    drain,
    first_progress,
    still_drained,
)
from ledger.errors import PreconditionError
from ledger.facts.syncs import Checkpoint
from ledger.kafka.cluster import PartitionEnds
from tests.simulation.kafka.cluster import MemoryCluster
from tests.support.changeovers import Room

# -- Groups that leave -----------------------------------------------------------------------------

_QUIET_S = 5.0
_AT = ("billing", "orders", 0)


def room_of(committed: int = 2) -> Room:
    room = Room()
    room.cluster.committed[_AT] = committed
    return room


def known(room: Room) -> list[Checkpoint]:
    """As a recorder that sees everything at once."""
    return room.cluster.commits(room.cluster.groups(), topic_ids={})


def at_rest(
    room: Room,
    recorded: Callable[[], Iterable[GroupPlace]],
    quiet_s: float = 0.0,
    *groups: str,
    ends: Mapping[tuple[str, int], int] | None = None,
) -> GroupsAtRest:
    which = WhichGroups(
        are_recorded=lambda group: not group.startswith("excluded"),
        named=frozenset(groups) if groups else None,
        accepted=frozenset(),
    )
    seen = SeenCommits(room.clock, quiet_s)
    return GroupsAtRest(room.cluster, frozenset({"orders"}), which, recorded, seen, lambda: dict(ends or {}))


def test_a_group_that_moves_is_waited_for_though_nobody_records_it_any_more() -> None:
    """Who moves it has accepted that its place may be an old one, and not that its consumers work on."""
    room = Room()
    room.cluster.committed[("excluded-1", "orders", 0)] = 2
    room.cluster.committed[("excluded-2", "orders", 0)] = 2
    room.cluster.members |= {"excluded-1", "excluded-2"}
    rest = at_rest(room, list)
    which = replace(rest.which, moving=frozenset({"excluded-1"}))
    room.happens = [lambda: room.cluster.members.discard("excluded-1")]
    result = replace(rest, which=which).wait(room.patience(), room.said.append)
    assert room.said == ["1 group with members at east: excluded-1. Stop their consumers there"]
    assert result.read_back == {"groups": ["excluded-1"]}


def watched(room: Room, *groups: str, seconds: float = 10.0) -> dict[str, object]:
    """What the receipt says, once all have stood still for long enough."""
    rest = at_rest(room, lambda: known(room), _QUIET_S, *groups)
    rest.read_again()
    room.sleep(1)
    receipt = rest.wait(room.patience(seconds), room.said.append).read_back
    rest.require_still_at_rest(room.patience(seconds), room.said.append)
    return dict(receipt)


def commits_at(room: Room, seconds: set[int], group: str = "billing", topic: str = "orders") -> None:
    """Somebody commits a record more at each of these, and is no member."""

    def commit(at_s: int) -> None:
        if at_s in seconds:
            place = (group, topic, 0)
            room.cluster.committed[place] = room.cluster.committed.get(place, 0) + 1

    room.each_second = commit


def test_groups_are_at_rest_without_members_and_with_their_commits_recorded() -> None:
    room = room_of()
    room.cluster.committed[("other", "elsewhere", 0)] = 2
    room.cluster.members |= {"billing", "other"}
    recorded: list[Checkpoint] = []

    def sweep() -> None:
        recorded[:] = known(room)

    room.happens = [room.cluster.members.clear, sweep]
    result = at_rest(room, lambda: recorded).wait(room.patience(), room.said.append)
    assert room.said == [
        "1 group with members at east: billing. Stop their consumers there",
        "1 commit of east not recorded yet. A recorder has to be at work (mirror-ledger record east)",
    ]
    assert result.read_back == {"groups": ["billing"]}


def test_a_commit_that_moved_since_it_was_recorded_is_waited_for() -> None:
    room = room_of()
    recorded = known(room)
    room.cluster.committed[_AT] = 3
    with pytest.raises(PreconditionError, match="1 commit of east not recorded yet"):
        at_rest(room, lambda: recorded).wait(room.patience(), room.said.append)


def test_members_that_stay_are_named_with_what_to_do() -> None:
    room = room_of()
    room.cluster.members.add("billing")
    with pytest.raises(
        PreconditionError, match=r"with members at east: billing\. Stop their consumers there; then"
    ):
        watched(room)


def test_who_never_had_members_is_watched_beside_the_steps_that_follow() -> None:
    room = room_of()
    rest = at_rest(room, lambda: known(room), _QUIET_S)
    rest.read_again()
    room.sleep(2)
    receipt = rest.wait(room.patience(), room.said.append)
    assert receipt.words == "1 group at rest, 1 commit recorded; 1 group without members watched for 3 s more"
    assert receipt.read_back == {"groups": ["billing"], "watched_on": ["billing"]}
    assert room.clock.now_s == 1_002
    rest.require_still_at_rest(room.patience(), room.said.append)
    assert room.clock.now_s == 1_000 + _QUIET_S
    assert room.said[0] == "commits of billing without members are watched, 3 s more", (
        "whoever waits shows that he lives"
    )


def test_who_has_stood_still_since_the_beginning_is_not_waited_for() -> None:
    room = room_of()
    rest = at_rest(room, lambda: known(room), _QUIET_S)
    rest.read_again()
    room.sleep(_QUIET_S)
    assert rest.wait(room.patience(), room.said.append).read_back == {"groups": ["billing"]}
    rest.require_still_at_rest(room.patience(), room.said.append)
    assert (room.clock.now_s, room.said) == (1_000 + _QUIET_S, [])


@pytest.mark.parametrize(
    ("ends", "is_waited_for"),
    [
        ({("orders", 0): 2, ("orders", 1): 0}, False),
        ({("orders", 0): 1, ("orders", 1): 0}, False),  # the last it read was a marker behind the records
        ({("orders", 0): 3, ("orders", 1): 0}, True),
        ({("orders", 0): 2, ("orders", 1): 1}, True),  # it may be about to commit there for the first time
        ({("orders", 1): 0}, True),
        ({("elsewhere", 0): 0}, True),
        ({}, True),
    ],
)
def test_who_stands_where_a_fence_has_ended_the_logs_is_not_waited_for(
    ends: Mapping[tuple[str, int], int], is_waited_for: bool
) -> None:
    room = room_of()
    rest = at_rest(room, lambda: known(room), _QUIET_S, ends=ends)
    rest.read_again()
    receipt = rest.wait(room.patience(), room.said.append)
    assert ("watched_on" in receipt.read_back) is is_waited_for
    rest.require_still_at_rest(room.patience(), room.said.append)
    assert room.clock.now_s == 1_000 + _QUIET_S * is_waited_for


def test_who_has_no_commit_any_more_is_not_at_an_end() -> None:
    room = room_of()
    rest = at_rest(room, lambda: known(room), _QUIET_S)
    rest.read_again()
    del room.cluster.committed[_AT]
    room.sleep(1)
    rest.read_again()
    assert rest.seen is not None
    assert rest.seen.waited_for == {"billing": _QUIET_S}


def test_who_commits_the_last_records_without_members_is_at_rest_at_the_end() -> None:
    room = room_of()
    rest = at_rest(room, lambda: known(room), _QUIET_S, ends={("orders", 0): 4, ("orders", 1): 0})
    commits_at(room, {1, 2})
    rest.read_again()
    room.sleep(1)
    rest.wait(room.patience(), room.said.append)
    rest.require_still_at_rest(room.patience(), room.said.append)
    assert room.clock.now_s == 1_002


def test_who_had_members_is_not_watched_once_they_have_left() -> None:
    """What they committed last came before that."""
    room = room_of()
    room.cluster.protocol_types["billing"] = "consumer"
    room.cluster.members.add("billing")
    rest = at_rest(room, lambda: known(room), _QUIET_S)
    rest.read_again()
    room.cluster.committed[_AT] = 3
    room.cluster.members.clear()
    assert rest.wait(room.patience(), room.said.append).read_back == {"groups": ["billing"]}
    rest.require_still_at_rest(room.patience(), room.said.append)
    assert (room.clock.now_s, room.said) == (1_000, [])


def test_who_commits_beside_a_group_that_had_members_is_refused() -> None:
    room = room_of()
    room.cluster.protocol_types["billing"] = "consumer"
    rest = at_rest(room, lambda: known(room), _QUIET_S)
    rest.read_again()
    room.cluster.committed[_AT] = 3
    commits_at(room, set(range(1, 100)))
    with pytest.raises(PreconditionError, match="1 group at work at east: commits of 'billing' moved"):
        rest.wait(room.patience(), room.said.append)


def test_who_begins_to_commit_behind_its_promotion_is_refused() -> None:
    room = room_of()
    rest = at_rest(room, lambda: known(room), _QUIET_S)
    rest.wait(room.patience(), room.said.append)
    commits_at(room, {2})
    with pytest.raises(PreconditionError, match="1 group at work at east: commits of 'billing' moved"):
        rest.require_still_at_rest(room.patience(), room.said.append)


@pytest.mark.parametrize(("interval_s", "watched_s"), [(1.0, 5.0), (4.0, 8.0), (60.0, 15.0)])
def test_a_group_is_watched_for_two_of_its_own_intervals_within_bounds(
    interval_s: float, watched_s: float
) -> None:
    room = room_of()
    seen = SeenCommits(room.clock, _QUIET_S, {"billing": interval_s})
    rest = replace(at_rest(room, lambda: known(room)), seen=seen)
    rest.wait(room.patience(), room.said.append)
    rest.require_still_at_rest(room.patience(), room.said.append)
    assert room.clock.now_s == 1_000 + watched_s


def test_a_commit_that_moves_and_comes_to_rest_is_waited_for() -> None:
    room = room_of()
    commits_at(room, {1, 3})
    assert watched(room)["groups"] == ["billing"]
    assert room.clock.now_s == pytest.approx(1_003 + _QUIET_S, abs=1.0)


def test_a_group_that_commits_without_members_is_refused_by_name() -> None:
    room = room_of()
    room.cluster.committed[("audit", "orders", 1)] = 5
    commits_at(room, set(range(1, 100, 3)))
    with pytest.raises(PreconditionError) as refused:
        watched(room)
    said = str(refused.value)
    assert said.startswith("1 group at work at east: commits of 'billing' moved without members. Stop")
    assert "(assign()) too; then continue: mirror-ledger apply" in said
    assert "audit" not in said
    assert room.clock.now_s == pytest.approx(1_010.0, abs=1.0), "no longer than the step may wait"


def test_a_group_that_begins_to_commit_while_others_are_watched_is_refused() -> None:
    room = room_of()
    commits_at(room, {2}, group="late")
    with pytest.raises(PreconditionError, match="commits of 'late' moved"):
        watched(room)


def test_what_others_commit_or_at_other_topics_is_none_of_it() -> None:
    room = room_of()
    commits_at(room, set(range(1, 100)), topic="payments")
    assert watched(room)["groups"] == ["billing"]
    commits_at(room, set(range(1, 1_000)), group="other")
    assert watched(room, "billing")["groups"] == ["billing"]


def test_a_commit_behind_the_watch_is_found_although_it_is_recorded() -> None:
    room = room_of()
    recorded = known(room)

    def late() -> list[Checkpoint]:
        """The recorder is slow, and sees what came meanwhile."""
        if room.clock.now_s >= 1_002:
            room.cluster.committed[_AT] = 9
            recorded[:] = known(room)
            return recorded
        return []

    with pytest.raises(PreconditionError, match="commits of 'billing' moved"):
        at_rest(room, late, _QUIET_S).wait(room.patience(), room.said.append)


def test_nobody_is_watched_where_the_plan_says_so() -> None:
    room = room_of()
    commits_at(room, set(range(1, 100)))
    rest = at_rest(room, lambda: known(room)).wait(room.patience(), room.said.append)
    assert (rest.read_back, room.clock.now_s) == ({"groups": ["billing"]}, 1_000.0)


def waits(room: Room, *groups: str, accepted: str = "") -> dict[str, object]:
    rest = at_rest(room, lambda: known(room), 0.0, *groups)
    rest = replace(rest, which=replace(rest.which, accepted=frozenset({accepted})))
    return dict(rest.wait(room.patience(), room.said.append).read_back)


def test_groups_that_nobody_may_read_are_not_taken_for_groups_at_rest() -> None:
    room = room_of()
    room.cluster.denied_groups.add("secret")
    with pytest.raises(
        PreconditionError, match=r"east shows only the groups that .* may describe\. Let the mirror"
    ):
        waits(room)
    with pytest.raises(PreconditionError, match="1 group of east cannot be read: 'secret' hidden"):
        waits(room, "billing", "secret")
    assert waits(room, "billing", "secret", accepted="hidden")["groups"] == ["billing"]
    assert waits(room, accepted="permitted_listed")["groups"] == ["billing"]


def test_a_group_that_was_deleted_and_one_that_no_flow_records_are_not_waited_for() -> None:
    room = room_of()
    assert waits(room, "billing", "deleted")["groups"] == ["billing"]
    room.cluster.committed[("excluded", "orders", 0)] = 5
    room.cluster.members.add("excluded")
    recorded = known(room_of())
    assert at_rest(room, lambda: recorded).wait(room.patience(), room.said.append).read_back == {
        "groups": ["billing"]
    }


def test_a_group_that_came_back_to_work_is_not_moved_behind_its_back() -> None:
    room = room_of()
    recorded = known(room)
    rest = at_rest(room, lambda: recorded)
    rest.require_still_at_rest(room.patience(), room.said.append)
    room.cluster.members.add("billing")
    with pytest.raises(PreconditionError, match=r"1 group with members at east: billing: .* not any more"):
        rest.require_still_at_rest(room.patience(), room.said.append)
    room.cluster.members.clear()
    room.cluster.committed[_AT] = 3
    with pytest.raises(
        PreconditionError, match=r"1 commit of east not recorded yet: .*\(mirror-ledger record east\)"
    ):
        rest.require_still_at_rest(room.patience(), room.said.append)


def test_a_group_whose_commit_a_transaction_is_about_to_replace_is_not_at_rest() -> None:
    room = room_of()
    room.cluster.pending.add(_AT)
    rest = at_rest(room, lambda: known(room))
    with pytest.raises(PreconditionError, match=r"1 group of east with a commit in a transaction.*: billing"):
        rest.wait(room.patience(), room.said.append)
    ends_at = room.clock.now_s + 3

    def ends(_said: str) -> None:
        if room.clock.now_s >= ends_at:
            room.cluster.pending.clear()

    assert rest.wait(room.patience(), ends).read_back["groups"] == ["billing"]


# -- Copies, and groups at work --------------------------------------------------------------------


def test_it_is_drained_when_the_maps_reach_the_ends() -> None:
    room = Room()
    room.write(0)
    reached = [room.at(0, 1), room.at(1, 0)]
    room.happens = [lambda: reached.__setitem__(0, room.at(0, 3))]
    result = drain(room.cluster, [room.topic], lambda _flow: reached, room.patience(), room.said.append)
    assert room.said == ["2 offsets to copy at orders partition 0"]
    assert result.read_back == {"high_watermarks": {"orders-0": 3, "orders-1": 0}}


def test_a_partition_that_was_added_and_never_copied_is_not_drained() -> None:
    room = Room()
    room.cluster.add_partitions("orders", total=3)
    room.write(2)
    reached = [room.at(0, 0), room.at(1, 0)]
    with pytest.raises(PreconditionError, match=r"not within 5 s: 3 offsets to copy at orders partition 2"):
        drain(room.cluster, [room.topic], lambda _flow: reached, room.patience(), room.said.append)
    assert room.clock.now_s == 1005.0


def test_an_empty_partition_that_no_flow_has_begun_with_is_not_drained() -> None:
    room = Room()
    room.cluster.add_partitions("orders", total=3)
    reached = [room.at(0, 0), room.at(1, 0)]
    room.happens = [lambda: reached.append(room.at(2, 0))]
    result = drain(room.cluster, [room.topic], lambda _flow: reached, room.patience(), room.said.append)
    assert room.said == ["orders partition 2 not begun with"]
    assert result.read_back == {"high_watermarks": {"orders-0": 0, "orders-1": 0, "orders-2": 0}}


def test_nobody_waits_for_what_comes_once_the_target_is_promoted() -> None:
    room = Room()
    room.write(0)
    room.cluster.add_partitions("orders", total=3)
    reached = [room.at(0, 3), room.at(1, 0)]
    still = still_drained(room.cluster, [room.topic], lambda _flow: reached, operation_id="op")
    assert still.read_back == {"high_watermarks": {"orders-0": 3, "orders-1": 0, "orders-2": 0}}
    room.write(1)
    with pytest.raises(PreconditionError, match=r"3 offsets of east came after .*mirror-ledger undo op"):
        still_drained(room.cluster, [room.topic], lambda _flow: reached, operation_id="op")


def ends_read(monkeypatch: pytest.MonkeyPatch, *readings: tuple[int, int]) -> None:
    """Last stable offset and high watermark of partition 0, one reading after the other; partition 1 is empty."""
    coming = iter(readings)

    def ends(_self: MemoryCluster, _asked: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        return {("orders", 0): PartitionEnds(0, *next(coming), 0), ("orders", 1): PartitionEnds(0, 0, 0, 0)}

    monkeypatch.setattr(MemoryCluster, "ends", ends)


def test_behind_an_open_transaction_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()
    ends_read(monkeypatch, (3, 7), (6, 9))
    with pytest.raises(PreconditionError, match="a transaction is open at orders partition 0"):
        drain(room.cluster, [room.topic], lambda _flow: [], room.patience(), room.said.append)
    assert room.said == []


def test_what_a_mirror_appends_while_ends_are_read_is_no_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()
    ends_read(monkeypatch, (3, 7), (7, 9))
    reached = [room.at(0, 7), room.at(1, 0)]
    result = drain(room.cluster, [room.topic], lambda _flow: reached, room.patience(), room.said.append)
    assert result.read_back == {"high_watermarks": {"orders-0": 7, "orders-1": 0}}


def test_what_another_incarnation_had_copied_does_not_count() -> None:
    room = Room()
    reached = [room.at(0, 9), room.at(1, 9)]
    room.cluster.recreate_topic("orders")
    room.write(0)
    with pytest.raises(PreconditionError, match="3 offsets to copy"):
        drain(room.cluster, [room.topic], lambda _flow: reached, room.patience(), room.said.append)


def test_a_topic_that_is_gone_is_no_drained_one() -> None:
    room = Room()
    topic = room.topic
    room.cluster.delete_topic("orders")
    with pytest.raises(PreconditionError, match="east has no topic orders"):
        drain(room.cluster, [topic], lambda _flow: [], room.patience(), room.said.append)


def moved(room: Room, group: str, *to: int) -> MovedCommit:
    return MovedCommit(
        group=group,
        is_of_share_group=False,
        topic="orders",
        topic_id=room.topic.source_topic_id,
        partition=0,
        former=None,
        to=to,
    )


def test_progress_is_the_first_commit_behind_what_was_set() -> None:
    room = Room()
    room.cluster.committed |= {(group, "orders", 0): 2 for group in ("billing", "idle", "again")}
    sheet = [moved(room, "billing", 2), moved(room, "idle", 2), moved(room, "again", 1, 2)]
    room.happens = [
        lambda: None,
        lambda: room.cluster.committed.update({("billing", "orders", 0): 3}),
    ]
    result = first_progress(room.cluster, sheet, room.patience(4.0), room.said.append)
    assert result.read_back == {
        "seconds_to_first_commit": {"billing": 2.0},
        "first_commit_at_ms": {"billing": 1_002_000},
        "not_seen_at_work": ["again", "idle"],
    }
    assert "1 group of 3 committed at east; billing after 2.0 s" in result.words
    assert "not seen at work within 4 s: again, idle" in result.words
    assert room.clock.now_s == 1_004.0


def test_progress_at_another_incarnation_is_none_and_all_at_work_end_the_wait() -> None:
    room = Room()
    sheet = [moved(room, "billing", 2)]
    room.cluster.committed[("billing", "orders", 0)] = 3
    assert first_progress(room.cluster, sheet, room.patience(), room.said.append).read_back[
        "seconds_to_first_commit"
    ] == {"billing": 0.0}
    assert room.clock.now_s == 1_000.0, "nobody is waited for"
    room.cluster.recreate_topic("orders")
    seen = first_progress(room.cluster, sheet, room.patience(1.0), room.said.append).read_back
    assert seen["not_seen_at_work"] == ["billing"]


def test_where_no_group_was_moved_nobody_is_waited_for() -> None:
    room = Room()
    assert first_progress(room.cluster, [], room.patience(), room.said.append).read_back == {
        "seconds_to_first_commit": {},
        "first_commit_at_ms": {},
        "not_seen_at_work": [],
    }
    assert room.clock.now_s == 1_000.0
