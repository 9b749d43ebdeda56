"""Groups leave the former source when none has members or commits, and the ledger has where they stand."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from ledger.domain.facts import Checkpoint
from ledger.errors import PreconditionError
from ledger.operations.changeover.groups_at_rest import GroupsAtRest, Standing, WhichGroups
from tests.support.waiting_rooms import Room

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
    room: Room, recorded: Callable[[], Iterable[Standing]], quiet_s: float = 0.0, *groups: str
) -> GroupsAtRest:
    which = WhichGroups(
        are_recorded=lambda group: not group.startswith("excluded"),
        named=frozenset(groups) if groups else None,
        accepted=frozenset(),
    )
    return GroupsAtRest(room.cluster, frozenset({"orders"}), which, recorded, quiet_s)


def watched(room: Room, *groups: str, seconds: float = 10.0) -> dict[str, object]:
    rest = at_rest(room, lambda: known(room), _QUIET_S, *groups)
    return dict(rest.wait(room.patience(seconds), room.said.append).read_back)


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
    assert room.said == ["1 group with members at east: billing", "1 commit of east not recorded yet"]
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


def test_commits_that_stand_still_are_watched_no_longer_than_needed() -> None:
    room = room_of()
    seen = watched(room)
    assert room.clock.now_s == 1_000.0 + _QUIET_S
    assert seen["watched"] == {
        "cluster": "east",
        "groups": 1,
        "watched_s": _QUIET_S,
        "moving": [],
        "with_members": [],
    }
    assert set(room.said) == {"commits are watched"}, "whoever waits shows that he is alive"


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
    assert said.startswith("1 group at work at east: commits of 'billing' moved, or members came. Stop")
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
        if room.clock.now_s >= 1_000 + _QUIET_S + 2:
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
    rest.require_still_at_rest()
    room.cluster.members.add("billing")
    with pytest.raises(PreconditionError, match=r"1 group with members at east: billing: .* not any more"):
        rest.require_still_at_rest()
    room.cluster.members.clear()
    room.cluster.committed[_AT] = 3
    with pytest.raises(
        PreconditionError, match=r"1 commit of east not recorded yet: .*\(mirror-ledger record east\)"
    ):
        rest.require_still_at_rest()
